#include "p2p/match.h"

static inline bool
tags_fit(int wanted, int tag)
{
	return wanted == ORIEL_ANY || wanted == tag;
}

void
match_init(struct match *m)
{
	TAILQ_INIT(&m->any);
	TAILQ_INIT(&m->came);
	m->order = 0;
}

void
match_source_init(struct match_source *s)
{
	TAILQ_INIT(&s->posted);
	TAILQ_INIT(&s->came);
}

void
match_post(struct match *m, struct match_source *source, struct match_recv *r, int tag)
{
	r->order = m->order++;
	r->tag = tag;
	r->any = !source;
	r->posted = true;
	if (source)
		TAILQ_INSERT_TAIL(&source->posted, r, entry);
	else
		TAILQ_INSERT_TAIL(&m->any, r, entry);
}

void
match_unpost(struct match *m, struct match_source *source, struct match_recv *r)
{
	if (r->any)
		TAILQ_REMOVE(&m->any, r, entry);
	else
		TAILQ_REMOVE(&source->posted, r, entry);
	r->posted = false;
}

static struct match_recv *
first_fit(const struct match_recvs *q, int tag)
{
	struct match_recv *r = NULL;

	TAILQ_FOREACH(r, q, entry)
	{
		if (tags_fit(r->tag, tag))
			return r;
	}
	return NULL;
}

struct match_recv *
match_arrival(struct match *m, struct match_source *source, int tag)
{
	struct match_recv *named = first_fit(&source->posted, tag);
	struct match_recv *any = first_fit(&m->any, tag);
	struct match_recv *r = !named || (any && any->order < named->order) ? any : named;

	if (r)
		match_unpost(m, source, r);
	return r;
}

void
match_keep(struct match *m, struct match_source *source, struct match_msg *msg, int tag)
{
	msg->source = source;
	msg->tag = tag;
	TAILQ_INSERT_TAIL(&source->came, msg, entry);
	TAILQ_INSERT_TAIL(&m->came, msg, all);
}

struct match_msg *
match_look(struct match *m, struct match_source *source, int tag)
{
	struct match_msg *msg = NULL;

	if (source) {
		TAILQ_FOREACH(msg, &source->came, entry)
		{
			if (tags_fit(tag, msg->tag))
				return msg;
		}
		return NULL;
	}
	TAILQ_FOREACH(msg, &m->came, all)
	{
		if (tags_fit(tag, msg->tag))
			return msg;
	}
	return NULL;
}

void
match_drop(struct match *m, struct match_msg *msg)
{
	TAILQ_REMOVE(&msg->source->came, msg, entry);
	TAILQ_REMOVE(&m->came, msg, all);
}
