/* One step of SaShiMi after the other, without leaving C: the whole network, the draw, and the draw read again.

   Weights are float32 in the order of their use. Every width is rounded up to whole blocks; what is added has weights of
   zero and stays zero. structures.py has the structures of this file, field by field.  */

#if defined(__AVX512F__) && defined(__AVX512BW__)
#define LANES 16
#endif
#include "vectors.h"
#include "linear.h"
#include "path.h"
#include "draw.h"

typedef struct {
    int64_t width, padded, inner; /* channels, channels rounded up, and the inside of a feed-forward layer */
    int64_t modes, glu, num_down, num_up;
    int64_t pool;  /* 0 at the centre */
    int64_t phase; /* how many inputs wait for the next pooled step */
    int64_t burst; /* how many inputs the states have not seen yet */
    const float *down, *down_pool, *up_pool, *up;
    float *memory;  /* [layer] of states, inputs and free responses: see ssm.h */
    float *waiting; /* [clip][pool][padded] */
    float *ready;   /* the same: outputs of the last pooled step */
    float *pooled;  /* [clip][padded of the next tier] */
    float *normed, *hidden, *skips;
} Tier;

#include "ssm.h"

typedef struct {
    int64_t num_clips, num_tiers, num_classes, num_outputs, padded_outputs;
    Tier *tiers;
    const float *embedding, *norm, *projection;
    float *x, *outputs, *scratch;
    Grid grid; /* no mixtures: a categorical head */
    Path path;
} Network;

typedef float eight __attribute__((vector_size(32)));

INLINE float sum_of_eight(eight v) { return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7])); }

/* (x - mean) / deviation over the channels that are none of the padding; the caller's padding is zero and stays so.
   Returns 1 / deviation. Sums are those of eight lanes on every machine, so that draws are, too. */
static float normalize(const float *x, int64_t width, float epsilon, float *out) {
    eight totals = {0}, squares = {0}, some;
    int64_t i = 0;
    for (; i + 8 <= width; i += 8) {
        memcpy(&some, x + i, sizeof some);
        totals += some;
    }
    float mean = sum_of_eight(totals);
    for (; i < width; i++)
        mean += x[i];
    mean /= width;
    for (i = 0; i + 8 <= width; i += 8) {
        memcpy(&some, x + i, sizeof some);
        squares += (some - mean) * (some - mean);
    }
    float variance = sum_of_eight(squares);
    for (; i < width; i++)
        variance += (x[i] - mean) * (x[i] - mean);
    float scale = 1.0f / sqrtf(variance / width + epsilon);
    for (i = 0; i < width; i++)
        out[i] = (x[i] - mean) * scale;
    return scale;
}

/* With one gain, bias, shift and epsilon for all channels: gain (x - mean + shift) / deviation + bias. */
static void normalize_channels(const Tier *tier, const float *affine, const float *x, int64_t num_clips) {
    for (int64_t clip = 0; clip < num_clips; clip++) {
        float *out = tier->normed + clip * tier->padded;
        float scale = normalize(x + clip * tier->padded, tier->width, affine[3], out);
        float added = affine[1] + affine[0] * affine[2] * scale;
        for (int64_t i = 0; i < tier->width; i++)
            out[i] = out[i] * affine[0] + added;
    }
}

/* All weights of a state-space layer and the feed-forward layer after it. */
static int64_t layer_size(const Tier *tier) {
    int64_t padded = tier->padded, mixed = (tier->glu ? 2 : 1) * padded, inner = tier->inner;
    return 2 * BLOCK + system_size(tier) + mixed * (1 + padded) + inner * (1 + padded) + padded * (1 + inner);
}

static const float *ssm_layer(const Tier *tier, const float *weights, int64_t layer, float *x, int64_t num_clips) {
    int64_t padded = tier->padded, mixed = (tier->glu ? 2 : 1) * padded;
    const float *kernel = weights + BLOCK;
    normalize_channels(tier, weights, x, num_clips);
    recur(tier, kernel, memory_of(tier, layer, num_clips), tier->normed, num_clips);
    weights = linear(kernel + system_size(tier), tier->normed, padded, tier->hidden, mixed, num_clips);
    for (int64_t clip = 0; clip < num_clips; clip++)
        for (int64_t i = 0; i < padded; i += LANES) {
            const float *hidden = tier->hidden + clip * mixed + i;
            float *to = x + clip * padded + i;
            vec added = load(hidden);
            if (tier->glu)
                added *= sigmoid(load(hidden + padded));
            store(to, load(to) + added);
        }
    return weights;
}

static const float *feed_forward(const Tier *tier, const float *weights, float *x, int64_t num_clips) {
    int64_t padded = tier->padded;
    normalize_channels(tier, weights, x, num_clips);
    weights = linear(weights + BLOCK, tier->normed, padded, tier->hidden, tier->inner, num_clips);
    for (int64_t i = 0; i < num_clips * tier->inner; i += LANES)
        store(tier->hidden + i, gelu(load(tier->hidden + i)));
    weights = linear(weights, tier->hidden, tier->inner, tier->normed, padded, num_clips);
    for (int64_t i = 0; i < num_clips * padded; i += LANES)
        store(x + i, load(x + i) + load(tier->normed + i));
    /* The outputs of padding are zero, so `normed` has zeros there again. */
    return weights;
}

static void add(float *x, const float *y, int64_t count) {
    for (int64_t i = 0; i < count; i += LANES)
        store(x + i, load(x + i) + load(y + i));
}

static void step_tier(Tier *tier, float *x, int64_t num_clips);

static void step_pooled(Tier *tier, float *x, int64_t num_clips) {
    int64_t padded = tier->padded, group = tier->pool * padded, bytes = padded * sizeof(float);
    for (int64_t clip = 0; clip < num_clips; clip++) {
        int64_t at = clip * group + tier->phase * padded;
        memcpy(tier->waiting + at, x + clip * padded, bytes);
        add(x + clip * padded, tier->ready + at, padded);
    }
    if (++tier->phase < tier->pool)
        return;
    tier->phase = 0;
    Tier *inner = tier + 1;
    linear(tier->down_pool, tier->waiting, group, tier->pooled, inner->padded, num_clips);
    step_tier(inner, tier->pooled, num_clips);
    linear(tier->up_pool, tier->pooled, inner->padded, tier->ready, group, num_clips);
}

static void step_tier(Tier *tier, float *x, int64_t num_clips) {
    int64_t count = num_clips * tier->padded, bytes = count * sizeof(float);
    const float *weights = tier->down;
    float *skip = tier->skips;
    for (int64_t layer = 0; layer < tier->num_down; layer++) {
        memcpy(skip, x, bytes);
        weights = ssm_layer(tier, weights, layer, x, num_clips);
        memcpy(skip + count, x, bytes);
        weights = feed_forward(tier, weights, x, num_clips);
        skip += 2 * count;
    }
    if (tier->pool)
        step_pooled(tier, x, num_clips);
    if (!tier->num_down)
        memcpy(skip, x, bytes);
    weights = tier->up;
    for (int64_t layer = tier->num_down; layer < tier->num_down + tier->num_up; layer++) {
        weights = ssm_layer(tier, weights, layer, x, num_clips);
        if (tier->num_down)
            add(x, skip -= count, count);
        weights = feed_forward(tier, weights, x, num_clips);
        if (tier->num_down)
            add(x, skip -= count, count);
    }
    if (!tier->num_down)
        add(x, skip, count);
    tier->burst = (tier->burst + 1) % BURST;
}

static void step(Network *network, const int64_t *classes, int64_t stride) {
    Tier *tier = network->tiers;
    int64_t padded = tier->padded, num_clips = network->num_clips;
    for (int64_t clip = 0; clip < num_clips; clip++) {
        int64_t class = classes[clip * stride];
        float *x = network->x + clip * padded;
        memcpy(x, network->embedding + class * padded, padded * sizeof(float));
        if (network->path.order)
            read_amplitude(&network->path, clip, class, network->num_classes, x, padded);
    }
    step_tier(tier, network->x, num_clips);
    const float *gain = network->norm, *bias = gain + padded;
    for (int64_t clip = 0; clip < num_clips; clip++) {
        float *out = tier->normed + clip * padded;
        normalize(network->x + clip * padded, tier->width, 1e-5f, out);
        for (int64_t i = 0; i < tier->width; i++)
            out[i] = out[i] * gain[i] + bias[i];
    }
    linear(network->projection, tier->normed, padded, network->outputs, network->padded_outputs, num_clips);
    if (network->path.order)
        for (int64_t clip = 0; clip < num_clips; clip++)
            place_means(&network->path, clip, network->outputs + clip * network->padded_outputs,
                        network->num_outputs / 3);
}

/* Begin with the states that were put into memory. */
void solfa_begin(Network *network) {
    if (network->path.order)
        for (int64_t clip = 0; clip < network->num_clips; clip++)
            predict(&network->path, clip);
    for (Tier *tier = network->tiers; tier < network->tiers + network->num_tiers; tier++) {
        tier->burst = 0;
        const float *weights = tier->down;
        for (int64_t layer = 0; layer < tier->num_down + tier->num_up; layer++) {
            weights = layer == tier->num_down ? tier->up : weights;
            respond(tier, weights + BLOCK + BURST * tier->padded, memory_of(tier, layer, network->num_clips),
                    network->num_clips, 1);
            weights += layer_size(tier);
        }
    }
}

/* Read one class of each clip and give what the network says of the next, [clip][output]. */
void solfa_read(Network *network, const int64_t *classes, float *outputs) {
    step(network, classes, 1);
    for (int64_t clip = 0; clip < network->num_clips; clip++)
        memcpy(outputs + clip * network->num_outputs, network->outputs + clip * network->padded_outputs,
               network->num_outputs * sizeof(float));
}

/* Read the first class of each clip, draw the next, read it, and so on: all of [clip][num_steps]. A mixture takes
   `noise` [clip][num_steps][mixture + 1], other heads `uniforms` [clip][num_steps]. */
void solfa_run(Network *network, const int64_t *first, int64_t num_steps, const double *uniforms, const float *noise,
               double temperature, int64_t *classes, float *log_probs) {
    int64_t m = network->grid.num_mixtures;
    for (int64_t t = 0; t < num_steps; t++) {
        step(network, t ? classes + t - 1 : first, t ? num_steps : 1);
        for (int64_t clip = 0; clip < network->num_clips; clip++) {
            const float *outputs = network->outputs + clip * network->padded_outputs;
            int64_t at = clip * num_steps + t;
            classes[at] = m ? draw_mixture(outputs, &network->grid, noise + at * (m + 1), temperature, log_probs + at)
                            : draw_categorical(outputs, network->num_outputs, uniforms[at], temperature,
                                               network->scratch, log_probs + at);
        }
    }
}
