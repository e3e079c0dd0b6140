/* Which cells are in which minibatch: orders for training, without any input or output.
 *
 * b = block size, m = batch size, f = fetch factor (the words of scDataset, arXiv 2506.01883). Everything below is a pure function of
 * the options, the epoch and the number of the batch: not of threads, ranks, workers, access modes or what was asked before.
 *
 * ---- members and positions ----
 * The *members* are the rows of a row set in ascending order, n of them (all rows of the store or stores without one). An epoch has N
 * *positions*: n, or num_samples. Batch t holds the positions tm … tm+m-1 of the epoch after the shuffle in the fetch, fetch F the
 * batches Ff … Ff+f-1; the last batch may be short (drop_last leaves it out then: T = floor(N/m) batches, else ceil(N/m)).
 *
 *   BLOCK       Members are cut into runs of b, R = ceil(n/b) of them; place p of the epoch holds run P(p), P the permutation of R keyed by
 *               (seed, RUNS, epoch). The last run is short when b does not divide n: it stands where P puts it, and positions behind
 *               it move up by its lack. Positions of a fetch are then permuted, keyed by (seed, FETCH, epoch, F): place i of the
 *               fetch holds position Fmf + P(i). This is scDataset's algorithm.
 *   SEQUENTIAL  Position x holds member x, nothing is shuffled.
 *   BUFFER      Position x holds member x, positions of a fetch are permuted as above.
 *   WEIGHTED    Position x holds a member drawn with probability w/sum(w), exactly for each position, with replacement, in groups that
 *               lie together: runs as above; a run of weights w gets k = the greatest power of two that is at most b and at most its
 *               effective number of rows, sum(w)^2 / sum(w^2) (Kish); runs of one k are a class. Positions are cut into slots of g = the
 *               greatest power of two <= b. A slot draws its class by the class's weight, g/k runs of it by their weights (an alias
 *               table, Walker 1977, Vose 1991), and k independent rows in each, by their weights. So the expected number of draws of
 *               a run is proportional to W/k and few reads serve many rows, but a row that carries a run alone does not fill a batch.
 *               Then shuffled in the fetch. Rows of weight 0 are never drawn.
 *               Without replacement it is refused: drawing a position would need all those before it, so no batch could be reached at once.
 *   BALANCED    WEIGHTED with 1 / (members with the same code) as weights: each class is as likely as any other. Code -1 (missing): never.
 *   OWN         The caller's own batches, from a list or a callback, through the same fetches, dealing and state; nothing is shuffled.
 *
 * num_samples: 0 = n (OWN: not used); BLOCK, SEQUENTIAL and BUFFER take the first num_samples <= n positions, so BLOCK other runs in
 * each epoch.
 *
 * ---- numbers ----
 * 64-bit, mod 2^64. G = 9E3779B97F4A7C15.
 *   mix(x)          x ^= x>>30; x *= BF58476D1CE4E5B9; x ^= x>>27; x *= 94D049BB133111EB; x ^= x>>31       (SplitMix64: Steele,
 *                   Lea and Flood 2014, with Stafford's constants)
 *   random(key, i)  mix(key + (i+1) G): number i of SplitMix64 started at `key`
 *   key(seed, purpose, epoch, number)  k = mix(seed + G), then k = mix((k ^ x) + G) for x = purpose, epoch, number;
 *                   purposes: 1 RUNS (number 0), 2 FETCH (the fetch), 3 DRAW (the slot), 4 ROWS (epoch and number 0: rows that are
 *                   shuffled when they are packed, SPEC.md 5.5.1)
 *   below(n)        from the next random number x of a key: the high half of the product x n, unless the low half is less than 2^64 mod n:
 *                   then again from the next one (Lemire 2019, unbiased)
 *   permutation of n, keyed:
 *     n < 2^16      a = 0 … n-1; for i = n-1 … 1: swap a[i] and a[below(i+1)]; P(i) = a[i]   (Fisher and Yates; Durstenfeld 1964)
 *     else          a Feistel network (Luby and Rackoff 1988) of 8 rounds over the c = floor(l/2) low and d = l-c high bits of
 *                   l = ceil(log2 n) bits: in even rounds i high ^= mix(low + random(key, i)) >> (64-d), in odd ones
 *                   low ^= mix(high + random(key, i)) >> (64-c); repeated until the result is < n (cycle walking, Black and Rogaway 2002)
 *   uniform         (x >> 11) 2^-53
 *   draws of a slot use random(key, 0) for the class, random(key, 1 + 2j) and (2 + 2j) for the alias table's column (the high half of
 *   x times its columns) and coin of run j, random(key, 2g + 1 + i) for the row at place i of the slot
 * So any batch is reached at once: m look-ups in row set and permutation, and for the first batch of a fetch or an epoch fewer than
 * 2^16 swaps.
 *
 * ---- ranks ----
 * `world` ranks share the T batches of an epoch. Full rounds of `world` fetches: rank r takes fetch (r + epoch) mod world of each round.
 * The batches after the last full round, L of them, are dealt one by one. Where L is not 0 but below `world`, the last round is
 * dealt too. Turn i (rank r has the turns i with i mod world = (r + epoch) mod world) takes batch (i + epoch x) mod L of the L, with
 * x = L mod world. PAD: ceil(L/world) turns for each, so at most world-1 batches are repeated; DROP: floor(L/world), so at most world-1 are
 * left out, others in the next epoch. Every rank has the same number of batches, always. The set of all ranks' batches is that of one
 * rank's but for those.
 *
 * ---- workers ----
 * A rank's `n_workers` workers (processes of a data loader) split its rounds: worker w takes the rounds q with q mod n_workers = w, then
 * the turns i of the rank's dealt batches with (rounds + i) mod n_workers = w; a last turn that repeats batches goes to the last of
 * those with the most steps. Step s of the rank is then the batch that comes out when workers are asked in turn, those that are done
 * left out (as torch's DataLoader does). Their number changes the order of steps, never the set of batches.
 *
 * ---- state and resuming ----
 * Within an epoch all ranks are at the same step. An epoch may be run in several *legs*, each with its own world and workers: the steps
 * of a leg take from what the legs before have left. What a leg leaves: whole fetches not begun, and single batches in order: those left
 * over from earlier legs first, then of each fetch begun, by fetch, the batches not taken. A new leg deals the single batches
 * one by one (turn i as above without rotation, to worker i mod n_workers), as far as they go round; then rounds of the fetches not begun;
 * then what remains (single batches first) as the last dealing above. Nothing is skipped, nothing comes twice, but for the at most
 * world-1 batches at the end. The same world and workers go on exactly as if nothing had happened.
 *
 * State as bytes (little-endian; any change makes another version; for files and messages between equal releases):
 *   offset  0  u8[8]  "ANNBSTAT"             offset  8  u32 version (1), u32 number of sources k, u32 number of legs l, u32 strategy
 *          24  u64 seed, u64 epoch                  40  u64 block size, u32 batch size, u32 fetch factor
 *          56  u32 flags (1 drop_last, 2 DROP), u32 zero
 *          64  u64 num_samples, u64 members, u64 order id: a hash of row set, weights, codes or list; of a callback the caller's number
 *          88  k × { u8[16] store id, u64 generation, u64 rows }, l × { u32 world, u32 workers, u64 steps }, u64 XXH3-64 of all before
 *
 * ---- threads and ownership ----
 * Row sets and samplers are immutable: any number of threads may use one. A picker and a plan belong to one thread at a time, and may
 * be many per sampler; both need their sampler open. Everything survives fork. Options and what they point to are copied. */
#ifndef ANNBLOCK_SAMPLER_H
#define ANNBLOCK_SAMPLER_H

#include <annblock/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- row sets: rows 0 … n_rows-1, some of them ---- */

typedef struct annb_row_set annb_row_set;

typedef struct annb_row_range {
  uint64_t first, end; /* end not included */
} annb_row_range;

/* Kept as ranges (16 bytes each) or as bits with a running count for each 512 (9 bytes per 64 rows), whichever is smaller.
 * `bits`: row i is bit i mod 64 of word i / 64; bits past n_rows are ignored. A list may come in any order, a row twice is ANNB_EINVAL;
 * ranges may come in any order, overlapping ones are ANNB_EINVAL, empty ones are left out. Rows past n_rows: ANNB_ERANGE. */
annb_status annb_row_set_of_bits(const uint64_t *bits, uint64_t n_rows, annb_row_set **out, annb_error *err);
annb_status annb_row_set_of_list(const uint64_t *rows, uint64_t n, uint64_t n_rows, annb_row_set **out, annb_error *err);
annb_status annb_row_set_of_ranges(const annb_row_range *ranges, uint64_t n, uint64_t n_rows, annb_row_set **out, annb_error *err);
void annb_row_set_close(annb_row_set *rows); /* NULL is allowed; samplers made from it live on */

uint64_t annb_row_set_count(const annb_row_set *rows);                    /* members */
uint64_t annb_row_set_limit(const annb_row_set *rows);                    /* n_rows */
uint64_t annb_row_set_member(const annb_row_set *rows, uint64_t i);       /* member i < count: its row, in O(log) */
uint64_t annb_row_set_rank(const annb_row_set *rows, uint64_t row);       /* members below `row` <= n_rows, in O(log) */
bool annb_row_set_contain(const annb_row_set *rows, uint64_t row);
uint64_t annb_row_set_bytes(const annb_row_set *rows);                    /* of memory */
uint64_t annb_row_set_hash(const annb_row_set *rows);                     /* of the set, however it is kept */

/* ---- samplers ---- */

typedef struct annb_sampler annb_sampler;

typedef enum annb_strategy {
  ANNB_SAMPLE_BLOCK = 0,
  ANNB_SAMPLE_SEQUENTIAL = 1,
  ANNB_SAMPLE_BUFFER = 2,
  ANNB_SAMPLE_WEIGHTED = 3,
  ANNB_SAMPLE_BALANCED = 4,
  ANNB_SAMPLE_OWN = 5
} annb_strategy;

/* One store, in the order of its rows: several stores are one run of rows. */
typedef struct annb_sampler_source {
  uint8_t store_id[16];
  uint64_t generation, n_rows;
} annb_sampler_source;

/* The caller's order: a list, or a callback when `batch` is not NULL. Rows must be < the sources' rows; any repeats. */
typedef struct annb_own_order {
  uint64_t n_batches;
  const uint64_t *offsets; /* n_batches + 1 places in `rows`, from 0, not descending, no batch larger than m */
  const uint64_t *rows;
  /* Put at most `room` (m) rows of batch `batch` < n_batches of the epoch into `rows`, their number into *n. Must give the same each
   * time and be callable from any thread at once. A failure ends the loader's epoch at that batch. */
  annb_status (*batch)(void *user, uint64_t epoch, uint64_t batch, uint64_t *rows, uint32_t room, uint32_t *n, annb_error *err);
  void *user;
  uint64_t id; /* of a callback: what tells it apart from other orders, for resuming */
} annb_own_order;

typedef struct annb_sampler_options {
  annb_strategy strategy;
  uint64_t seed;
  uint64_t block_size;   /* b; 0 = 16; at most 2^32 */
  uint32_t batch_size;   /* m; 0 = 64; at most 2^24 */
  uint32_t fetch_factor; /* f; 0 = 256; at most 2^20; m f at most 2^30 */
  bool drop_last;
  bool without_replacement; /* WEIGHTED, BALANCED: refused */
  uint64_t num_samples;     /* 0 = all members; WEIGHTED and BALANCED: any number up to 2^48, others at most the members */
  const annb_row_set *rows;    /* of as many rows as the sources together; NULL = all. OWN: not used */
  const double *weights;    /* WEIGHTED: by member, finite, not negative, not all 0 */
  const int32_t *codes;     /* BALANCED: by member, -1 = missing, not all missing */
  uint64_t n_weights, n_codes; /* must be the number of members */
  annb_own_order own;       /* OWN */
} annb_sampler_options;

/* ANNB_EINVAL says which option is wrong and why. */
annb_status annb_sampler_open(const annb_sampler_source *sources, uint32_t n_sources, const annb_sampler_options *options,
                              annb_sampler **out, annb_error *err);
void annb_sampler_close(annb_sampler *sampler); /* NULL is allowed; no picker or plan may be open */

typedef struct annb_sampler_info {
  annb_strategy strategy;
  uint64_t seed, n_rows, members, positions, batches, fetches; /* of an epoch */
  uint64_t block_size;
  uint32_t batch_size, fetch_factor; /* none is 0 here */
  uint64_t bytes; /* of memory */
} annb_sampler_info;
void annb_sampler_get_info(const annb_sampler *sampler, annb_sampler_info *info);

/* ---- pickers: the rows of any batch ---- */

typedef struct annb_picker annb_picker;

annb_status annb_picker_open(const annb_sampler *sampler, annb_picker **out, annb_error *err);
void annb_picker_close(annb_picker *picker); /* NULL is allowed */
/* The rows (of the sources together) of batch `batch` of `epoch`, in order, at most m of them; `rows` has room for m. Batches of
 * one fetch one after the other are the fastest. ANNB_ERANGE when there is no such batch. */
annb_status annb_picker_batch(annb_picker *picker, uint64_t epoch, uint64_t batch, uint64_t *rows, uint32_t *n, annb_error *err);

/* ---- plans: who gets which batch ---- */

typedef struct annb_plan annb_plan;

typedef enum annb_uneven { ANNB_PAD = 0, ANNB_DROP = 1 } annb_uneven;

typedef struct annb_topology {
  uint32_t rank, world;       /* world 0 = 1; rank < world <= 2^20 */
  uint32_t worker, n_workers; /* n_workers 0 = 1; worker < n_workers <= 2^16 */
  annb_uneven uneven;         /* DROP with fewer batches than ranks, but some: ANNB_EINVAL */
} annb_topology;

/* At the start of epoch 0. */
annb_status annb_plan_open(const annb_sampler *sampler, const annb_topology *topology, annb_plan **out, annb_error *err);
void annb_plan_close(annb_plan *plan); /* NULL is allowed */
/* Go to the start of an epoch. */
annb_status annb_plan_set_epoch(annb_plan *plan, uint64_t epoch, annb_error *err);
uint64_t annb_plan_epoch(const annb_plan *plan);

/* Steps of the rank in this epoch that were taken before (in a state that was restored), and those to take from here on; the worker's share
 * of the latter. */
uint64_t annb_plan_taken(const annb_plan *plan);
uint64_t annb_plan_rank_steps(const annb_plan *plan);
uint64_t annb_plan_steps(const annb_plan *plan);
/* The worker's step s < annb_plan_steps: its batch, and the steps *first … *end-1 around s that belong to one fetch (or, where single
 * batches are dealt, to at most f of them): what is best read together. `first` and `end` may be NULL. */
uint64_t annb_plan_batch(const annb_plan *plan, uint64_t s, uint64_t *first, uint64_t *end);
/* Which step of the rank the worker's step is. */
uint64_t annb_plan_rank_step(const annb_plan *plan, uint64_t s);

/* The state after `steps` <= annb_plan_rank_steps more steps of every rank: at most *size bytes go to `bytes`, *size is what it takes
 * (ANNB_ECAPACITY when that is more; NULL bytes only ask). It is the same for all ranks and workers. */
annb_status annb_plan_state(const annb_plan *plan, uint64_t steps, void *bytes, size_t *size, annb_error *err);
/* Go on from a state of any rank, with this plan's own topology. ANNB_ECORRUPT when the bytes are damaged, ANNB_EVERSION when they are
 * of another release, ANNB_EINVAL when they are of another store, generation, row set or parameters (the message says which), or when an
 * epoch would get more than 64 legs. On failure the plan is as before. */
annb_status annb_plan_restore(annb_plan *plan, const void *bytes, size_t size, annb_error *err);

#ifdef __cplusplus
}
#endif
#endif
