/*
 * itree.h - a balanced tree (AVL) of address ranges [addr, addr + len) that may
 * overlap, ordered by (addr, len), no two equal. Each node knows the farthest
 * end of its subtree, so that a range which contains a given one is found
 * without a walk.
 *
 * insert, remove and both finds are O(log n): no more than 1.45 * log2(n + 2)
 * nodes deep. Nodes are the caller's memory, inside its own structure. No range
 * reaches over the end of the address space. Threads: the caller locks.
 */
#ifndef ALLOC_ITREE_H
#define ALLOC_ITREE_H

#include "base/base.h"

struct itree_node {
	uintptr_t addr; /* set by the caller before insert, then constant */
	size_t len;
	uintptr_t max_end; /* of this node and all below */
	struct itree_node *left, *right;
	int height;
};

/* *root NULL is the empty tree. node's range is not in the tree. */
void itree_insert(struct itree_node **root, struct itree_node *node);
/* node is in the tree. */
void itree_remove(struct itree_node **root, struct itree_node *node);
/* The node of just this range, or NULL. */
struct itree_node *itree_find(struct itree_node *root, uintptr_t addr, size_t len);
/* A node whose range contains [addr, addr + len), or NULL. */
struct itree_node *itree_containing(struct itree_node *root, uintptr_t addr, size_t len);
/* Asserts order, balance and ends; returns the number of nodes. */
size_t itree_check(const struct itree_node *root);

#endif
