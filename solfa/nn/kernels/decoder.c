/* One step of a transformer decoder for some rows, without leaving C.

   Widths of rows are rounded up to multiples of 64; what was added is zero and stays zero. structures.py has the
   structures of this file and of panels.h, field by field.  */

#if defined(__AVX512F__) && defined(__AVX512BW__)
#define LANES 16
#endif
#include "vectors.h"
#include "numbers.h"
#include "panels.h"
#include "attention.h"
#include "team.h"

#define NORM_EPSILON 1e-5f

typedef struct {
    const float *self_norm, *cross_norm, *ffn_norm; /* weights, then biases */
    Linear qkv, out, query, cross_out, fc1, fc2;
} Layer;

typedef struct {
    int64_t dim, padded, num_heads, head_dim, num_layers;
    const Layer *layers;
    const float *norm;
} Decoder;

typedef struct {
    int64_t num_rows, position, max_steps, num_threads;
    int64_t num_conditions; /* 0: no cross-attention */
    Kept keys, values;      /* of [layer][row][head] */
    half *const *cross_keys, *const *cross_values; /* a layer's [row][head][condition][head_dim] */
    const uint8_t *seen;                                 /* [row][condition]; NULL: all */
    const float *cosine, *sine;                          /* of this position; NULL: no rotation */
    float *x;                                            /* [row][padded]: in, and what the heads read out */
    void *scratch;
} Step;

/* What the threads of a step share. */
typedef struct {
    const Decoder *decoder;
    const Step *step;
    float *normed, *wide, *attended;
    char *scores;
    int64_t scores_width;
    Rows rounded;
} Work;

typedef struct {
    char *base;
    int64_t used;
} Bump;

static void *take(Bump *memory, int64_t num_bytes) {
    int64_t begin = memory->used;
    memory->used += (num_bytes + 63) / 64 * 64;
    return memory->base == NULL ? NULL : memory->base + begin;
}

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

static Rows take_rounded(Bump *memory, int64_t num_rows, int64_t width) {
    return (Rows){.integers = take(memory, 2 * num_rows * width),
                  .scales = take(memory, 4 * num_rows * (width / GROUP)),
                  .sums = take(memory, 4 * num_rows * (width / GROUP))};
}

static Work lay_out_work(const Decoder *decoder, const Step *step, Bump *memory) {
    int64_t rows = step->num_rows, widest = 0;
    for (int64_t l = 0; l < decoder->num_layers; l++)
        widest = larger(widest, larger(decoder->layers[l].qkv.out, decoder->layers[l].fc1.out));
    int64_t scores = (larger(step->max_steps, step->num_conditions) + LANES) / LANES * LANES;
    Work work = {.decoder = decoder, .step = step, .scores_width = scores};
    work.normed = take(memory, 4 * rows * decoder->padded);
    work.wide = take(memory, 4 * rows * widest);
    work.attended = take(memory, 4 * rows * decoder->padded);
    work.scores = take(memory, SCORE_BYTES * scores * MOST_THREADS);
    work.rounded = take_rounded(memory, rows, widest);
    return work;
}

/* out = x W, shared by the team; all see all of it afterwards. */
static void multiply(const Linear *linear, const float *x, Rows rounded, float *out, int64_t num_rows,
                     enum finish finish, int64_t thread, Team *team) {
    if (linear->format == INT8 || linear->format == INT4) {
        for (int64_t r = share(num_rows, thread, team); r < share(num_rows, thread + 1, team); r++)
            round_row(linear, x, r, rounded);
        meet(team);
    }
    rounded.floats = x;
    int64_t panels = linear->out / PANEL;
    multiply_panels(linear, rounded, out, num_rows, share(panels, thread, team), share(panels, thread + 1, team),
                    finish);
    meet(team);
}

static void normalize(const Work *work, const float *norm, float *out, int64_t thread, Team *team) {
    int64_t dim = work->decoder->dim, padded = work->decoder->padded, rows = work->step->num_rows;
    for (int64_t r = share(rows, thread, team); r < share(rows, thread + 1, team); r++) {
        const float *x = work->step->x + r * padded;
        vec totals = {0}, squares = {0};
        for (int64_t i = 0; i < dim; i += LANES)
            totals += load(x + i);
        float mean = sum(totals) / dim;
        for (int64_t i = 0; i < dim; i += LANES) {
            vec centred = load(x + i) - mean;
            squares += centred * centred;
        }
        float scale = 1.0f / sqrtf(sum(squares) / dim + NORM_EPSILON);
        for (int64_t i = 0; i < dim; i += LANES)
            store(out + r * padded + i, (load(x + i) - mean) * scale * load(norm + i) + load(norm + dim + i));
        memset(out + r * padded + dim, 0, 4 * (padded - dim));
    }
    meet(team);
}

INLINE float *scores_of(const Work *work, int64_t thread) {
    return (float *)(work->scores + SCORE_BYTES * work->scores_width * thread);
}

static void attend_to_self(const Work *work, int64_t layer, int64_t thread, Team *team) {
    const Decoder *decoder = work->decoder;
    const Step *step = work->step;
    int64_t heads = decoder->num_heads, width = decoder->head_dim, places = step->num_rows * heads;
    int64_t stride = decoder->layers[layer].qkv.out;
    for (int64_t place = share(places, thread, team); place < share(places, thread + 1, team); place++) {
        int64_t row = place / heads, head = place % heads;
        float *query = work->wide + row * stride + head * width;
        float *key = query + decoder->dim, *value = key + decoder->dim;
        if (step->cosine != NULL) {
            rotate(query, step->cosine, step->sine, width);
            rotate(key, step->cosine, step->sine, width);
        }
        int64_t begin = (layer * places + place) * step->max_steps;
        Kept keys = head_of(step->keys, begin, width), values = head_of(step->values, begin, width);
        keep(keys, step->position, key, width, 1);
        keep(values, step->position, value, width, 4);
        attend_head(query, keys, values, step->position + 1, NULL, scores_of(work, thread), work->scores_width,
                    work->attended + row * decoder->padded + head * width, width);
    }
    meet(team);
}

static void attend_to_condition(const Work *work, int64_t layer, int64_t thread, Team *team) {
    const Decoder *decoder = work->decoder;
    const Step *step = work->step;
    int64_t heads = decoder->num_heads, width = decoder->head_dim, places = step->num_rows * heads;
    for (int64_t place = share(places, thread, team); place < share(places, thread + 1, team); place++) {
        int64_t row = place / heads, head = place % heads, begin = place * step->num_conditions * width;
        Kept keys = {step->cross_keys[layer] + begin, NULL}, values = {step->cross_values[layer] + begin, NULL};
        attend_head(work->wide + row * decoder->layers[layer].query.out + head * width, keys, values,
                    step->num_conditions, step->seen == NULL ? NULL : step->seen + row * step->num_conditions,
                    scores_of(work, thread), work->scores_width, work->attended + row * decoder->padded + head * width,
                    width);
    }
    meet(team);
}

static void run_layers(void *job, int64_t thread, void *all) {
    const Work *work = job;
    Team *team = all;
    const Step *step = work->step;
    int64_t rows = step->num_rows;
    for (int64_t l = 0; l < work->decoder->num_layers; l++) {
        const Layer *layer = &work->decoder->layers[l];
        normalize(work, layer->self_norm, work->normed, thread, team);
        multiply(&layer->qkv, work->normed, work->rounded, work->wide, rows, STORE, thread, team);
        attend_to_self(work, l, thread, team);
        multiply(&layer->out, work->attended, work->rounded, step->x, rows, ADD, thread, team);
        if (step->num_conditions) {
            normalize(work, layer->cross_norm, work->normed, thread, team);
            multiply(&layer->query, work->normed, work->rounded, work->wide, rows, STORE, thread, team);
            attend_to_condition(work, l, thread, team);
            multiply(&layer->cross_out, work->attended, work->rounded, step->x, rows, ADD, thread, team);
        }
        normalize(work, layer->ffn_norm, work->normed, thread, team);
        multiply(&layer->fc1, work->normed, work->rounded, work->wide, rows, GELU, thread, team);
        multiply(&layer->fc2, work->wide, work->rounded, step->x, rows, ADD, thread, team);
    }
    normalize(work, work->decoder->norm, step->x, thread, team);
}

/* How much scratch memory a step needs. */
int64_t solfa_step_bytes(const Decoder *decoder, const Step *step) {
    Bump memory = {0};
    lay_out_work(decoder, step, &memory);
    return memory.used;
}

/* Read one more step of each row; x becomes what the heads read. */
void solfa_step(const Decoder *decoder, const Step *step) {
    Bump memory = {step->scratch, 0};
    Work work = lay_out_work(decoder, step, &memory);
    for (int64_t r = 0; r < step->num_rows; r++)
        memset(work.attended + r * decoder->padded + decoder->dim, 0, 4 * (decoder->padded - decoder->dim));
    run_team(run_layers, &work, step->num_threads);
}

typedef struct {
    const Linear *linear;
    const float *x;
    Rows rounded;
    float *out;
    int64_t num_rows;
} Product;

static void run_product(void *job, int64_t thread, void *team) {
    const Product *product = job;
    multiply(product->linear, product->x, product->rounded, product->out, product->num_rows, STORE, thread, team);
}

int64_t solfa_linear_bytes(const Linear *linear, int64_t num_rows) {
    Bump memory = {0};
    take_rounded(&memory, num_rows, linear->in);
    return memory.used;
}

/* out [row][out] = x [row][in] W, for any number of rows. */
void solfa_linear(const Linear *linear, const float *x, float *out, int64_t num_rows, void *scratch,
                  int64_t num_threads) {
    Bump memory = {scratch, 0};
    Product product = {linear, x, take_rounded(&memory, num_rows, linear->in), out, num_rows};
    run_team(run_product, &product, num_threads);
}

/* How many outputs stand side by side. */
int64_t solfa_panel(void) { return PANEL; }

/* Sum numbers at the speed of memory: what a product could reach. */
float solfa_read(const float *x, int64_t num) {
    vec totals[8] = {{0}};
    for (int64_t i = 0; i + 8 * LANES <= num; i += 8 * LANES)
#pragma GCC unroll 8
        for (int v = 0; v < 8; v++)
            totals[v] += load(x + i + v * LANES);
    float total = 0;
    for (int v = 0; v < 8; v++)
        total += sum(totals[v]);
    return total;
}
