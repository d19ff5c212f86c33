#include "alloc/itree.h"

#include <assert.h>

static int
height(const struct itree_node *n)
{
	return n ? n->height : 0;
}

static uintptr_t
max_end(const struct itree_node *n)
{
	return n ? n->max_end : 0;
}

/* What n knows about its subtree, from its children. */
static void
update(struct itree_node *n)
{
	int l = height(n->left), r = height(n->right);

	n->height = 1 + (l > r ? l : r);
	n->max_end = n->addr + n->len;
	if (n->max_end < max_end(n->left))
		n->max_end = max_end(n->left);
	if (n->max_end < max_end(n->right))
		n->max_end = max_end(n->right);
}

static struct itree_node *
rotate_right(struct itree_node *n)
{
	struct itree_node *top = n->left;

	n->left = top->right;
	top->right = n;
	update(n);
	update(top);
	return top;
}

static struct itree_node *
rotate_left(struct itree_node *n)
{
	struct itree_node *top = n->right;

	n->right = top->left;
	top->left = n;
	update(n);
	update(top);
	return top;
}

/* Both subtrees are right, and their heights differ by at most 2. Returns the new top. */
static struct itree_node *
balance(struct itree_node *n)
{
	int d = height(n->left) - height(n->right);

	if (d > 1) {
		if (height(n->left->left) < height(n->left->right))
			n->left = rotate_left(n->left);
		return rotate_right(n);
	}
	if (d < -1) {
		if (height(n->right->right) < height(n->right->left))
			n->right = rotate_right(n->right);
		return rotate_left(n);
	}
	update(n);
	return n;
}

static int
compare(uintptr_t addr, size_t len, const struct itree_node *n)
{
	if (addr != n->addr)
		return addr < n->addr ? -1 : 1;
	return len < n->len ? -1 : len > n->len;
}

void
itree_insert(struct itree_node **root, struct itree_node *node)
{
	struct itree_node *n = *root;
	int c;

	if (!n) {
		node->left = node->right = NULL;
		update(node);
		*root = node;
		return;
	}
	c = compare(node->addr, node->len, n);
	assert(c);
	itree_insert(c < 0 ? &n->left : &n->right, node);
	*root = balance(n);
}

/* Takes the lowest node out. */
static struct itree_node *
remove_lowest(struct itree_node **root)
{
	struct itree_node *n = *root, *lowest;

	if (!n->left) {
		*root = n->right;
		return n;
	}
	lowest = remove_lowest(&n->left);
	*root = balance(n);
	return lowest;
}

void
itree_remove(struct itree_node **root, struct itree_node *node)
{
	struct itree_node *n = *root, *next;

	assert(n);
	if (n != node) {
		itree_remove(compare(node->addr, node->len, n) < 0 ? &n->left : &n->right, node);
		*root = balance(n);
		return;
	}
	if (!n->left || !n->right) {
		*root = n->left ? n->left : n->right;
		return;
	}
	next = remove_lowest(&n->right);
	next->left = n->left;
	next->right = n->right;
	*root = balance(next);
}

struct itree_node *
itree_find(struct itree_node *n, uintptr_t addr, size_t len)
{
	int c;

	while (n && (c = compare(addr, len, n)))
		n = c < 0 ? n->left : n->right;
	return n;
}

struct itree_node *
itree_containing(struct itree_node *n, uintptr_t addr, size_t len)
{
	uintptr_t end = addr + len;

	while (n && n->max_end >= end) {
		if (n->addr > addr) {
			n = n->left;
			continue;
		}
		/* All on the left start early enough: who of them ends late enough contains it. */
		if (max_end(n->left) >= end)
			n = n->left;
		else if (n->addr + n->len >= end)
			return n;
		else
			n = n->right;
	}
	return NULL;
}

size_t
itree_check(const struct itree_node *n)
{
	struct itree_node copy;
	size_t l, r;
	int d;

	if (!n)
		return 0;
	l = itree_check(n->left);
	r = itree_check(n->right);
	copy = *n;
	update(&copy);
	d = height(n->left) - height(n->right);
	assert(copy.height == n->height && copy.max_end == n->max_end && d >= -1 && d <= 1);
	assert(!n->left || compare(n->left->addr, n->left->len, n) < 0);
	assert(!n->right || compare(n->right->addr, n->right->len, n) > 0);
	return l + 1 + r;
}
