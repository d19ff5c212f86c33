/*
 * ucx_load.h - UCX, opened at run time.
 *
 * A job on one node never loads it: neither its signal handlers nor its hooks
 * nor its start-up time. A machine without it runs the same binary. The files
 * that include this header call UCX's functions by their own names.
 *
 * Opened once a process and never closed; the table is what a linker would have
 * filled in.
 */
#ifndef RMA_UCX_LOAD_H
#define RMA_UCX_LOAD_H

#include <ucm/api/ucm.h>
#include <ucp/api/ucp.h>

/* Every function of UCX that is used. */
#define UCX_SYMBOLS(X)                                                                             \
	X(ucm_set_event_handler)                                                                   \
	X(ucm_unset_event_handler)                                                                 \
	X(ucp_am_send_nbx)                                                                         \
	X(ucp_cleanup)                                                                             \
	X(ucp_config_modify)                                                                       \
	X(ucp_config_read)                                                                         \
	X(ucp_config_release)                                                                      \
	X(ucp_context_print_info)                                                                  \
	X(ucp_ep_close_nbx)                                                                        \
	X(ucp_ep_create)                                                                           \
	X(ucp_ep_flush_nbx)                                                                        \
	X(ucp_ep_rkey_unpack)                                                                      \
	X(ucp_get_nbx)                                                                             \
	X(ucp_get_version)                                                                         \
	X(ucp_init_version)                                                                        \
	X(ucp_mem_map)                                                                             \
	X(ucp_mem_unmap)                                                                           \
	X(ucp_put_nbx)                                                                             \
	X(ucp_request_check_status)                                                                \
	X(ucp_request_free)                                                                        \
	X(ucp_rkey_buffer_release)                                                                 \
	X(ucp_rkey_destroy)                                                                        \
	X(ucp_rkey_pack)                                                                           \
	X(ucp_worker_arm)                                                                          \
	X(ucp_worker_create)                                                                       \
	X(ucp_worker_destroy)                                                                      \
	X(ucp_worker_get_address)                                                                  \
	X(ucp_worker_get_efd)                                                                      \
	X(ucp_worker_progress)                                                                     \
	X(ucp_worker_release_address)                                                              \
	X(ucp_worker_set_am_recv_handler)                                                          \
	X(ucs_status_string)

struct ucx_symbols {
#define UCX_FIELD(f) __typeof__(f) *f;
	UCX_SYMBOLS(UCX_FIELD)
#undef UCX_FIELD
};

extern struct ucx_symbols ucx_lib;

/* ENOTSUP, and the detail names the library or the function that is not there. */
int ucx_load(void);

#define ucm_set_event_handler(...) ucx_lib.ucm_set_event_handler(__VA_ARGS__)
#define ucm_unset_event_handler(...) ucx_lib.ucm_unset_event_handler(__VA_ARGS__)
#define ucp_am_send_nbx(...) ucx_lib.ucp_am_send_nbx(__VA_ARGS__)
#define ucp_cleanup(...) ucx_lib.ucp_cleanup(__VA_ARGS__)
#define ucp_config_modify(...) ucx_lib.ucp_config_modify(__VA_ARGS__)
#define ucp_config_read(...) ucx_lib.ucp_config_read(__VA_ARGS__)
#define ucp_config_release(...) ucx_lib.ucp_config_release(__VA_ARGS__)
#define ucp_context_print_info(...) ucx_lib.ucp_context_print_info(__VA_ARGS__)
#define ucp_ep_close_nbx(...) ucx_lib.ucp_ep_close_nbx(__VA_ARGS__)
#define ucp_ep_create(...) ucx_lib.ucp_ep_create(__VA_ARGS__)
#define ucp_ep_flush_nbx(...) ucx_lib.ucp_ep_flush_nbx(__VA_ARGS__)
#define ucp_ep_rkey_unpack(...) ucx_lib.ucp_ep_rkey_unpack(__VA_ARGS__)
#define ucp_get_nbx(...) ucx_lib.ucp_get_nbx(__VA_ARGS__)
#define ucp_get_version(...) ucx_lib.ucp_get_version(__VA_ARGS__)
#define ucp_init(...) ucx_lib.ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, __VA_ARGS__)
#define ucp_mem_map(...) ucx_lib.ucp_mem_map(__VA_ARGS__)
#define ucp_mem_unmap(...) ucx_lib.ucp_mem_unmap(__VA_ARGS__)
#define ucp_put_nbx(...) ucx_lib.ucp_put_nbx(__VA_ARGS__)
#define ucp_request_check_status(...) ucx_lib.ucp_request_check_status(__VA_ARGS__)
#define ucp_request_free(...) ucx_lib.ucp_request_free(__VA_ARGS__)
#define ucp_rkey_buffer_release(...) ucx_lib.ucp_rkey_buffer_release(__VA_ARGS__)
#define ucp_rkey_destroy(...) ucx_lib.ucp_rkey_destroy(__VA_ARGS__)
#define ucp_rkey_pack(...) ucx_lib.ucp_rkey_pack(__VA_ARGS__)
#define ucp_worker_arm(...) ucx_lib.ucp_worker_arm(__VA_ARGS__)
#define ucp_worker_create(...) ucx_lib.ucp_worker_create(__VA_ARGS__)
#define ucp_worker_destroy(...) ucx_lib.ucp_worker_destroy(__VA_ARGS__)
#define ucp_worker_get_address(...) ucx_lib.ucp_worker_get_address(__VA_ARGS__)
#define ucp_worker_get_efd(...) ucx_lib.ucp_worker_get_efd(__VA_ARGS__)
#define ucp_worker_progress(...) ucx_lib.ucp_worker_progress(__VA_ARGS__)
#define ucp_worker_release_address(...) ucx_lib.ucp_worker_release_address(__VA_ARGS__)
#define ucp_worker_set_am_recv_handler(...) ucx_lib.ucp_worker_set_am_recv_handler(__VA_ARGS__)
#define ucs_status_string(...) ucx_lib.ucs_status_string(__VA_ARGS__)

#endif
