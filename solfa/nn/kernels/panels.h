/* Products of rows with a matrix, whose weights have 32, 16, 8 or 4 bits, at the speed of reading them.

   A matrix stands in panels of PANEL outputs; a panel is read once, from front to end, for all rows:

       float32, float16   [panel][input][output]
       int8               [panel][input / 2][output][2]                and a scale for each output
       int4               [panel][input / 32] of: scales [output] in float16, then [4][output][4] bytes, each with the
                          weight of an input (low bits) and of the input four further (high bits), plus 8

   Integers are multiplied by integers and summed exactly: those of int8 by rows of 16 bits with a scale for each row,
   those of int4 by rows of 8 bits with a scale for each group of 32, which loses far less than the weights have lost.
   Every sum runs over the inputs in one order, in blocks of BLOCK, so a row's numbers depend neither on the rows beside
   it nor on threads.

   In and out widths are multiples of 64; what was added has weights of zero.  */

#define VECTORS 4
#define PANEL (VECTORS * LANES)
#define BLOCK 512 /* the most inputs whose products with 8 bits fit into 32: 512 * 127 * 32767 < 2^31 */
#define GROUP 32
#define LARGEST_16 32767
#define LARGEST_8 127
#if LANES == 16
#define TILE_ROWS 6 /* with four vectors each, and four of weights, these fill 32 registers */
#else
#define TILE_ROWS 3
#endif
#define ROWS_AT_ONCE 60

enum format { FLOAT32, FLOAT16, INT8, INT4 };
enum finish { STORE, ADD, GELU };

typedef struct {
    int64_t format, in, out;
    const void *weights;
    const float *scales; /* of int8 */
} Linear;

/* Rows as a product reads them: floats, 16-bit integers with a scale per row, or 8-bit ones with one per group. */
typedef struct {
    const float *floats;
    int16_t *integers; /* or twice as many bytes */
    float *scales;
    int32_t *sums; /* of each group */
} Rows;

/* With rows for more than one tile, arithmetic takes longer than memory: while the tiles of a block are computed, they fetch
   what follows it, each its share, line by line. A single tile waits for memory anyway, and would wait longer. */
#define LINE 64
#define ONLY_TILE (-1)

INLINE const char *share_of(const void *what_follows, int64_t tile, int64_t lines) {
    return tile == ONLY_TILE ? NULL : (const char *)what_follows + tile * lines * LINE;
}

INLINE void fetch(const char *ahead, int64_t line) {
    if (ahead != NULL)
        __builtin_prefetch(ahead + line * LINE, 0, 2);
}

INLINE void tile_float(const void *weights, const float *x, int64_t in, int64_t num, const char *ahead, vec *partial,
                       const int is_half, const int rows) {
    vec total[TILE_ROWS * VECTORS];
#pragma GCC unroll 24
    for (int t = 0; t < rows * VECTORS; t++)
        total[t] = partial[t];
    for (int64_t i = 0; i < num; i++) {
        vec w[VECTORS];
        fetch(ahead, i);
#pragma GCC unroll 4
        for (int v = 0; v < VECTORS; v++)
            w[v] = is_half ? load_half((const half *)weights + i * PANEL + v * LANES)
                           : load((const float *)weights + i * PANEL + v * LANES);
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++) {
            vec scalar = broadcast(x[r * in + i]);
#pragma GCC unroll 4
            for (int v = 0; v < VECTORS; v++)
                total[r * VECTORS + v] += w[v] * scalar;
        }
    }
#pragma GCC unroll 24
    for (int t = 0; t < rows * VECTORS; t++)
        partial[t] = total[t];
}

INLINE void tile_int8(const int8_t *weights, const int16_t *x, int64_t in, int64_t num, const char *ahead, vec *partial,
                      const int rows) {
    ivec total[TILE_ROWS * VECTORS];
#pragma GCC unroll 24
    for (int t = 0; t < rows * VECTORS; t++)
        total[t] = (ivec){0};
    for (int64_t i = 0; i < num; i += 2) {
        ivec w[VECTORS];
        fetch(ahead, i / 2);
#pragma GCC unroll 4
        for (int v = 0; v < VECTORS; v++)
            w[v] = load_pairs(weights + i * PANEL + 2 * v * LANES);
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++) {
            ivec pair = broadcast_word(x + r * in + i);
#pragma GCC unroll 4
            for (int v = 0; v < VECTORS; v++)
                total[r * VECTORS + v] = add_pairs(total[r * VECTORS + v], w[v], pair);
        }
    }
#pragma GCC unroll 24
    for (int t = 0; t < rows * VECTORS; t++)
        partial[t] += __builtin_convertvector(total[t], vec);
}

#define INT4_BYTES (2 * PANEL + GROUP / 2 * PANEL)

INLINE void tile_int4(const uint8_t *weights, const int8_t *x, const float *scales, const int32_t *sums, int64_t in,
                      int64_t num, vec *partial, const int rows) {
    for (int64_t g = 0; g < num / GROUP; g++, weights += INT4_BYTES) {
        ivec total[TILE_ROWS * VECTORS];
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
            for (int v = 0; v < VECTORS; v++)
                total[r * VECTORS + v] = -8 * sums[r * (in / GROUP) + g] - (ivec){0};
#pragma GCC unroll 4
        for (int q = 0; q < GROUP / 8; q++) {
            ivec both[VECTORS];
#pragma GCC unroll 4
            for (int v = 0; v < VECTORS; v++)
                both[v] = load_words(weights + 2 * PANEL + 4 * (PANEL * q + v * LANES));
#pragma GCC unroll 6
            for (int r = 0; r < rows; r++) {
                ivec word = broadcast_word(x + r * in + g * GROUP + 8 * q);
#pragma GCC unroll 4
                for (int v = 0; v < VECTORS; v++)
                    total[r * VECTORS + v] = add_quads(total[r * VECTORS + v], both[v] & 0x0F0F0F0F, word);
            }
#pragma GCC unroll 6
            for (int r = 0; r < rows; r++) {
                ivec word = broadcast_word(x + r * in + g * GROUP + 8 * q + 4);
#pragma GCC unroll 4
                for (int v = 0; v < VECTORS; v++)
                    total[r * VECTORS + v] = add_quads(total[r * VECTORS + v], both[v] >> 4 & 0x0F0F0F0F, word);
            }
        }
#pragma GCC unroll 4
        for (int v = 0; v < VECTORS; v++) {
            vec scale = load_half((const half *)weights + v * LANES);
#pragma GCC unroll 6
            for (int r = 0; r < rows; r++)
                partial[r * VECTORS + v] +=
                    __builtin_convertvector(total[r * VECTORS + v], vec) * (scale * scales[r * (in / GROUP) + g]);
        }
    }
}

/* One block of a panel, for one to TILE_ROWS rows; each count is compiled for itself. */
INLINE void tile(const Linear *linear, int64_t panel, int64_t begin, int64_t num, int64_t index, Rows x, vec *partial,
                 const int rows) {
    int64_t in = linear->in, place = panel * PANEL * in + begin * PANEL, next = place + num * PANEL;
    const float *floats = linear->weights;
    const half *halves = linear->weights;
    const int8_t *bytes = linear->weights;
    switch (linear->format) {
    case FLOAT32:
        tile_float(floats + place, x.floats + begin, in, num, share_of(floats + next, index, num), partial, 0, rows);
        break;
    case FLOAT16:
        tile_float(halves + place, x.floats + begin, in, num, share_of(halves + next, index, num), partial, 1, rows);
        break;
    case INT8:
        tile_int8(bytes + place, x.integers + begin, in, num, share_of(bytes + next, index, num / 2), partial, rows);
        break;
    case INT4:
        tile_int4((const uint8_t *)bytes + place / (PANEL * GROUP) * INT4_BYTES,
                  (const int8_t *)x.integers + begin, x.scales + begin / GROUP, x.sums + begin / GROUP, in, num,
                  partial, rows);
        break;
    }
}

#define TILE(N)                                                                                                        \
    static __attribute__((noinline)) void tile_##N(const Linear *linear, int64_t panel, int64_t begin, int64_t num,    \
                                                   int64_t index, Rows x, vec *partial) {                              \
        tile(linear, panel, begin, num, index, x, partial, N);                                                         \
    }
typedef void (*Tile)(const Linear *, int64_t, int64_t, int64_t, int64_t, Rows, vec *);
TILE(1)
TILE(2)
TILE(3)
#if TILE_ROWS == 6
TILE(4)
TILE(5)
TILE(6)
static const Tile TILES[] = {tile_1, tile_2, tile_3, tile_4, tile_5, tile_6};
#else
static const Tile TILES[] = {tile_1, tile_2, tile_3};
#endif

INLINE Rows rows_from(const Linear *linear, Rows x, int64_t row) {
    int64_t in = linear->in, groups = in / GROUP;
    if (linear->format == INT4)
        return (Rows){NULL, (int16_t *)((int8_t *)x.integers + row * in), x.scales + row * groups, x.sums + row * groups};
    return (Rows){x.floats + row * in, x.integers + row * in, x.scales + row, NULL};
}

INLINE void finish_panel(const Linear *linear, int64_t panel, Rows x, const vec *partial, float *out, int64_t rows,
                         const enum finish finish) {
    for (int64_t r = 0; r < rows; r++)
        for (int v = 0; v < VECTORS; v++) {
            vec made = partial[r * VECTORS + v];
            float *to = out + r * linear->out + panel * PANEL + v * LANES;
            if (linear->format == INT8)
                made *= load(linear->scales + panel * PANEL + v * LANES) * x.scales[r];
            store(to, finish == ADD ? load(to) + made : finish == GELU ? gelu(made) : made);
        }
}

/* Some panels of out = x W (or out + x W, or gelu(x W)), for all rows. */
static void multiply_panels(const Linear *linear, Rows x, float *out, int64_t num_rows, int64_t first, int64_t stop,
                            enum finish finish) {
    vec partial[ROWS_AT_ONCE * VECTORS];
    for (int64_t row = 0; row < num_rows; row += ROWS_AT_ONCE) {
        int64_t rows = num_rows - row < ROWS_AT_ONCE ? num_rows - row : ROWS_AT_ONCE;
        int64_t num_tiles = (rows + TILE_ROWS - 1) / TILE_ROWS;
        Rows these = rows_from(linear, x, row);
        float *to = out + row * linear->out;
        for (int64_t panel = first; panel < stop; panel++) {
            memset(partial, 0, rows * VECTORS * sizeof(vec));
            for (int64_t begin = 0; begin < linear->in; begin += BLOCK) {
                int64_t num = linear->in - begin < BLOCK ? linear->in - begin : BLOCK;
                for (int64_t t = 0; t < num_tiles; t++) {
                    int64_t from = rows * t / num_tiles, count = rows * (t + 1) / num_tiles - from;
                    TILES[count - 1](linear, panel, begin, num, num_tiles == 1 ? ONLY_TILE : t,
                                     rows_from(linear, these, from), partial + from * VECTORS);
                }
            }
            if (finish == ADD)
                finish_panel(linear, panel, these, partial, to, rows, ADD);
            else if (finish == GELU)
                finish_panel(linear, panel, these, partial, to, rows, GELU);
            else
                finish_panel(linear, panel, these, partial, to, rows, STORE);
        }
    }
}

INLINE float peak_of(const float *x, int64_t num) {
    vec most = {0};
    for (int64_t i = 0; i < num; i += LANES) {
        vec magnitude = (vec)((ivec)load(x + i) & 0x7FFFFFFF);
        most = choose(magnitude > most, magnitude, most);
    }
    float peak = largest(most);
    return peak > 1e-30f ? peak : 1e-30f;
}

INLINE int32_t nearest(float x) {
    float shifted = x + 12582912.0f; /* 1.5 * 2^23: the sum's last bits are the rounded integer */
    int32_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    return bits - 0x4B400000;
}

/* x = scale * integer, the largest magnitude of the row being LARGEST_16. */
static void round_row_to_16(const float *x, int64_t in, int64_t row, Rows to) {
    float scale = peak_of(x, in) / LARGEST_16, per_unit = 1.0f / scale;
    to.scales[row] = scale;
    for (int64_t i = 0; i < in; i++)
        to.integers[row * in + i] = (int16_t)nearest(x[i] * per_unit);
}

/* The same with LARGEST_8, for each group of the row; also the sum of each group. */
static void round_row_to_8(const float *x, int64_t in, int64_t row, Rows to) {
    for (int64_t g = 0; g < in / GROUP; g++) {
        float scale = peak_of(x + g * GROUP, GROUP) / LARGEST_8, per_unit = 1.0f / scale;
        int8_t *bytes = (int8_t *)to.integers + row * in + g * GROUP;
        int32_t total = 0;
        for (int64_t i = 0; i < GROUP; i++) {
            int32_t integer = nearest(x[g * GROUP + i] * per_unit);
            bytes[i] = (int8_t)integer;
            total += integer;
        }
        to.scales[row * (in / GROUP) + g] = scale;
        to.sums[row * (in / GROUP) + g] = total;
    }
}

static void round_row(const Linear *linear, const float *x, int64_t row, Rows to) {
    if (linear->format == INT8)
        round_row_to_16(x + row * linear->in, linear->in, row, to);
    else if (linear->format == INT4)
        round_row_to_8(x + row * linear->in, linear->in, row, to);
}
