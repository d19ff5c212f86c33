#include "rma/ctx.h"

#include <stdlib.h>
#include <uthash.h>

struct entry {
	uint64_t id;
	void *value;
	UT_hash_handle hh;
};

struct table {
	pthread_rwlock_t lock;
	struct entry *head;
};

struct table *
table_create(void)
{
	struct table *t = calloc(1, sizeof(*t));

	if (t)
		pthread_rwlock_init(&t->lock, NULL);
	return t;
}

void
table_free(struct table *t)
{
	struct entry *e, *next;

	if (!t)
		return;
	HASH_ITER(hh, t->head, e, next)
	{
		HASH_DEL(t->head, e);
		free(e);
	}
	pthread_rwlock_destroy(&t->lock);
	free(t);
}

int
table_put(struct table *t, uint64_t id, void *value)
{
	struct entry *e, *fresh = malloc(sizeof(*fresh));

	if (!fresh)
		return fail(ORIEL_ENOMEM, "no memory for a table entry");
	fresh->id = id;
	fresh->value = value;
	pthread_rwlock_wrlock(&t->lock);
	HASH_FIND(hh, t->head, &id, sizeof(id), e);
	if (e)
		e->value = value;
	else
		HASH_ADD(hh, t->head, id, sizeof(id), fresh);
	pthread_rwlock_unlock(&t->lock);
	if (e)
		free(fresh);
	return 0;
}

void *
table_get(struct table *t, uint64_t id)
{
	struct entry *e;
	void *value;

	pthread_rwlock_rdlock(&t->lock);
	HASH_FIND(hh, t->head, &id, sizeof(id), e);
	value = e ? e->value : NULL;
	pthread_rwlock_unlock(&t->lock);
	return value;
}

void *
table_del(struct table *t, uint64_t id)
{
	struct entry *e;
	void *value;

	pthread_rwlock_wrlock(&t->lock);
	HASH_FIND(hh, t->head, &id, sizeof(id), e);
	if (e)
		HASH_DEL(t->head, e);
	pthread_rwlock_unlock(&t->lock);
	value = e ? e->value : NULL;
	free(e);
	return value;
}

void *
table_find(struct table *t, bool (*is)(const void *value))
{
	struct entry *e;
	void *found = NULL;

	pthread_rwlock_rdlock(&t->lock);
	for (e = t->head; e && !found; e = e->hh.next)
		if (is(e->value))
			found = e->value;
	pthread_rwlock_unlock(&t->lock);
	return found;
}

void
table_each(struct table *t, void (*fn)(void *arg, uint64_t id, void *value), void *arg)
{
	struct entry *e, *next;

	pthread_rwlock_rdlock(&t->lock);
	HASH_ITER(hh, t->head, e, next)
	{
		fn(arg, e->id, e->value);
	}
	pthread_rwlock_unlock(&t->lock);
}

int
dir_init(struct peer_dir *d, int size)
{
	d->n_chunks = (size + DIR_CHUNK - 1) / DIR_CHUNK;
	d->chunk = calloc((size_t)d->n_chunks, sizeof(*d->chunk));
	return d->chunk ? 0 : fail(ORIEL_ENOMEM, "no memory for a directory of %d ranks", size);
}

int
dir_set(struct peer_dir *d, int rank, void *entry)
{
	void **c = d->chunk[rank / DIR_CHUNK];

	if (!c) {
		c = calloc(DIR_CHUNK, sizeof(*c));
		if (!c)
			return fail(ORIEL_ENOMEM, "no memory for a directory of ranks");
		store_release(&d->chunk[rank / DIR_CHUNK], c);
	}
	store_release(&c[rank % DIR_CHUNK], entry);
	return 0;
}

void
dir_each(struct peer_dir *d, void (*fn)(void *entry, void *arg), void *arg)
{
	for (int i = 0; d->chunk && i < d->n_chunks; i++) {
		void **c = load_acquire(&d->chunk[i]);

		for (int j = 0; c && j < DIR_CHUNK; j++) {
			void *entry = load_acquire(&c[j]);

			if (entry)
				fn(entry, arg);
		}
	}
}

void
dir_free(struct peer_dir *d)
{
	for (int i = 0; d->chunk && i < d->n_chunks; i++)
		free(d->chunk[i]);
	free(d->chunk);
	d->chunk = NULL;
}
