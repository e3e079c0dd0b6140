#include "loader_internal.h"

#include <stdlib.h>

enum { ALIGN = 64, TRIES = 1 << 20 };

/* The lock is only ever tried: a child may find it held by a thread that it has not. */
struct annb_pool {
  atomic_uint holders;
  pthread_mutex_t lock;
  annb_slot *free;
  uint32_t n_free, n_kept, n_matrices, n_labels;
  size_t most_bytes; /* of a slot that is kept */
  bool closed, keeps;
};

annb_pool *annb_pool_open(uint32_t n_matrices, uint32_t n_labels, uint32_t n_kept, bool keeps) {
  annb_pool *pool = calloc(1, sizeof *pool);
  if (!pool) return NULL;
  atomic_init(&pool->holders, 1);
  pthread_mutex_init(&pool->lock, NULL);
  pool->n_matrices = n_matrices;
  pool->n_labels = n_labels;
  pool->n_kept = keeps ? UINT32_MAX : n_kept;
  pool->keeps = keeps;
  pool->most_bytes = SIZE_MAX;
  return pool;
}

void annb_pool_limit(annb_pool *pool, size_t most_bytes) { pool->most_bytes = most_bytes; }

static void free_buffer(annb_slot_buffer *buffer) {
  for (uint32_t i = 0; i < buffer->n_before; i++) free(buffer->before[i]);
  free(buffer->before);
  free(buffer->data);
}

static void free_slot(annb_slot *slot) {
  for (uint32_t i = 0; slot->buffers && i < slot->n_matrices; i++)
    for (int j = 0; j < 3; j++) free_buffer(&slot->buffers[i][j]);
  for (uint32_t i = 0; slot->label_buffers && i < slot->n_labels; i++) free_buffer(&slot->label_buffers[i]);
  free_buffer(&slot->rows);
  free(slot->matrices);
  free(slot->buffers);
  free(slot->labels);
  free(slot->label_buffers);
  free(slot);
}

static void free_slots(annb_slot *slot) {
  while (slot) {
    annb_slot *next = slot->next;
    free_slot(slot);
    slot = next;
  }
}

/* Slots that are still there were given back when the pool could not be locked to be closed. */
static void drop_pool(annb_pool *pool) {
  if (atomic_fetch_sub(&pool->holders, 1) > 1) return;
  free_slots(pool->free);
  pthread_mutex_destroy(&pool->lock);
  free(pool);
}

static bool lock_within(annb_pool *pool, int tries) {
  while (tries && pthread_mutex_trylock(&pool->lock)) tries--;
  return tries > 0;
}

static annb_slot *new_slot(const annb_pool *pool) {
  annb_slot *slot = calloc(1, sizeof *slot);
  if (!slot) return NULL;
  slot->n_matrices = pool->n_matrices;
  slot->n_labels = pool->n_labels;
  slot->matrices = calloc((size_t)slot->n_matrices + 1, sizeof *slot->matrices);
  slot->buffers = calloc((size_t)slot->n_matrices + 1, sizeof *slot->buffers);
  slot->labels = calloc((size_t)slot->n_labels + 1, sizeof *slot->labels);
  slot->label_buffers = calloc((size_t)slot->n_labels + 1, sizeof *slot->label_buffers);
  if (!slot->matrices || !slot->buffers || !slot->labels || !slot->label_buffers) {
    free_slot(slot);
    return NULL;
  }
  slot->rows.keeps = pool->keeps;
  for (uint32_t i = 0; i < slot->n_matrices; i++)
    for (int j = 0; j < 3; j++) slot->buffers[i][j].keeps = pool->keeps;
  for (uint32_t i = 0; i < slot->n_labels; i++) slot->label_buffers[i].keeps = pool->keeps;
  return slot;
}

annb_slot *annb_pool_get(annb_pool *pool) {
  annb_slot *slot = NULL;
  if (!pthread_mutex_trylock(&pool->lock)) {
    slot = pool->free;
    if (slot) {
      pool->free = slot->next;
      pool->n_free--;
    }
    pthread_mutex_unlock(&pool->lock);
  }
  if (!slot) slot = new_slot(pool);
  if (slot) {
    slot->pool = pool;
    atomic_fetch_add(&pool->holders, 1);
  }
  return slot;
}

/* Of its matrices: the others are small. */
static size_t slot_bytes(const annb_slot *slot) {
  size_t sum = 0;
  for (uint32_t i = 0; i < slot->n_matrices; i++)
    for (int j = 0; j < 3; j++) sum += slot->buffers[i][j].size;
  return sum;
}

void annb_slot_give_back(annb_slot *slot) {
  annb_pool *pool = slot->pool;
  bool kept = false, free_it = !pool->keeps; /* that lock of a parent's thread is never free again: then the memory stays for ever */
  if (lock_within(pool, pool->keeps ? TRIES : 1)) {
    kept = !pool->closed && pool->n_free < pool->n_kept && slot_bytes(slot) <= pool->most_bytes;
    free_it = true;
    if (kept) {
      slot->next = pool->free;
      pool->free = slot;
      pool->n_free++;
    }
    pthread_mutex_unlock(&pool->lock);
  }
  if (!kept && free_it) free_slot(slot);
  drop_pool(pool);
}

void annb_pool_close(annb_pool *pool) {
  if (!pool) return;
  if (lock_within(pool, TRIES)) {
    annb_slot *slots = pool->free;
    pool->free = NULL;
    pool->closed = true;
    pthread_mutex_unlock(&pool->lock);
    free_slots(slots);
  }
  drop_pool(pool);
}

void *annb_slot_room(annb_slot_buffer *buffer, size_t size) {
  if (buffer->data && buffer->size >= size) return buffer->data;
  if (size > SIZE_MAX / 2) return NULL;
  size_t room = (size + size / 4 + ALIGN) / ALIGN * ALIGN; /* more, so that batches of like size do not each allocate */
  if (buffer->keeps && buffer->data) {
    void **before = realloc(buffer->before, ((size_t)buffer->n_before + 1) * sizeof *before);
    if (!before) return NULL;
    buffer->before = before;
    before[buffer->n_before++] = buffer->data;
  } else free(buffer->data);
  buffer->data = aligned_alloc(ALIGN, room);
  buffer->size = buffer->data ? room : 0;
  return buffer->data;
}

void annb_batch_release(annb_batch *batch) {
  if (!batch) return;
  if (batch->owner) annb_slot_give_back(batch->owner);
  *batch = (annb_batch){0};
}
