/* Convolutions over frames and activations: the channels of a frame are next to each other, for reading and for writing.

   A tile of outputs (some frames, one or more vectors of channels) stays in registers while the products of a chain are
   added to it one after the other, each with a single rounding; then the chain's sum is added to the sum of the chains
   before it, the first one to the bias. Where chains begin and end, and the order within, is given by the caller, so
   that a sum can be rounded as another library rounds it. Which outputs share a tile changes no number. */

#ifdef __AVX512F__
#define LANES 16
#define TILE_VECTORS 4
#else
#define LANES 8
#define TILE_VECTORS 2
#endif
#include "vectors.h"

/* What is read again and again from the second cache: weights of a panel for all frames, inputs for all panels. But all
   weights are read again for the next frames, and the widest layers have 33 MB of them: so no fewer than LEAST_FRAMES. */
#define WEIGHTS_BYTES (1 << 18)
#define INPUTS_BYTES (3 << 17)
#define LEAST_FRAMES 192

/* Products are taken block by block of channels, in a block tap by tap, for a tap channel by channel. The weights lie
   in that order, LANES outputs (or the width of a panel) side by side. */
typedef struct {
    int64_t in, out, taps, stride, dilation;
    int64_t block;  /* channels */
    int64_t chain;  /* taps of blocks that are summed before they are added to what came before */
    int64_t vectors; /* of a panel: one, two or TILE_VECTORS */
    int64_t starts_with_bias;
    const float *weights, *bias;
} Convolution;

INLINE void multiply(vec *sums, const float *weights, const float *x, int64_t step, const int frames, const int vectors) {
    vec w[TILE_VECTORS];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++)
        w[v] = load(weights + v * LANES);
#pragma GCC unroll 12
    for (int f = 0; f < frames; f++) {
        const vec input = broadcast(x[f * step]);
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            sums[f * vectors + v] = fused(input, w[v], sums[f * vectors + v]);
    }
}

/* Add sums to what is in `out` already, or the first ones to the bias; `added` comes last. */
INLINE void finish(const Convolution *conv, const vec *sums, const float *bias, int is_first, const float *added,
                   float *out, const int frames, const int vectors) {
#pragma GCC unroll 12
    for (int f = 0; f < frames; f++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            const int64_t place = f * conv->out + v * LANES;
            vec total = sums[f * vectors + v];
            if (!conv->starts_with_bias)
                total += load(is_first ? bias + v * LANES : out + place);
            store(out + place, added == NULL ? total : total + load(added + place));
        }
}

/* The products of some channels, from the first that is not yet in `out` to the last for now. */
INLINE void tile(const Convolution *conv, const float *weights, const float *bias, const float *x, int64_t first,
                 int64_t last, const float *added, float *out, const int frames, const int vectors) {
    vec sums[24];
    const int64_t in = conv->in, step = conv->stride * in, block = conv->block, width = vectors * LANES;
#pragma GCC unroll 12
    for (int f = 0; f < frames; f++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            sums[f * vectors + v] = conv->starts_with_bias ? load(bias + v * LANES) : (vec){0};
    int64_t left = conv->chain;
    int is_first = first == 0;
    for (int64_t channel = first; channel < last; channel += block)
        for (int64_t tap = 0; tap < conv->taps; tap++) {
            const float *from = x + tap * conv->dilation * in + channel, *stop = from + block;
            for (; from + 8 <= stop; from += 8, weights += 8 * width)
#pragma GCC unroll 8
                for (int i = 0; i < 8; i++)
                    multiply(sums, weights + i * width, from + i, step, frames, vectors);
            for (; from < stop; from++, weights += width)
                multiply(sums, weights, from, step, frames, vectors);
            if (--left == 0 && (channel + block < last || tap + 1 < conv->taps)) {
                finish(conv, sums, bias, is_first, NULL, out, frames, vectors);
                left = conv->chain, is_first = 0;
#pragma GCC unroll 24
                for (int i = 0; i < frames * vectors; i++)
                    sums[i] = (vec){0};
            }
        }
    finish(conv, sums, bias, is_first, added, out, frames, vectors);
}

typedef void (*Tile)(const Convolution *, const float *, const float *, const float *, int64_t, int64_t, const float *,
                     float *);
#define TILE(FRAMES, VECTORS)                                                                                          \
    static __attribute__((noinline)) void tile_##FRAMES##_##VECTORS(                                                   \
        const Convolution *conv, const float *weights, const float *bias, const float *x, int64_t first, int64_t last, \
        const float *added, float *out) {                                                                              \
        tile(conv, weights, bias, x, first, last, added, out, FRAMES, VECTORS);                                        \
    }
TILE(1, 1)
TILE(1, 2)
#ifdef __AVX512F__
TILE(12, 1)
TILE(12, 2)
TILE(1, 4)
TILE(6, 4)
static const Tile ONE[] = {tile_1_1, tile_1_2, NULL, tile_1_4}, MANY[] = {tile_12_1, tile_12_2, NULL, tile_6_4};
static const int64_t FRAMES[] = {12, 12, 0, 6};
#else
TILE(6, 1)
TILE(6, 2)
static const Tile ONE[] = {tile_1_1, tile_1_2}, MANY[] = {tile_6_1, tile_6_2};
static const int64_t FRAMES[] = {6, 6};
#endif

int64_t solfa_lanes(void) { return LANES; }

int64_t solfa_tile_vectors(void) { return TILE_VECTORS; }

/* As many channels at a time as whole chains of a panel's weights fit the cache; all, if a chain may not be cut there. */
static int64_t channels_at_once(const Convolution *conv) {
    const int64_t bytes = 4 * conv->taps * conv->vectors * LANES;
    if (conv->starts_with_bias || conv->chain % conv->taps != 0)
        return conv->in;
    const int64_t channels = conv->chain / conv->taps * conv->block, fitting = WEIGHTS_BYTES / (channels * bytes);
    return channels * (fitting > 1 ? fitting : 1);
}

/* out [frames, conv->out] from x [at least (frames - 1) stride + span, conv->in], plus `added` like out, if not NULL. */
void solfa_convolve(const Convolution *conv, const float *x, const float *added, float *out, int64_t frames) {
    const int64_t many = FRAMES[conv->vectors - 1], step = conv->stride * conv->in, width = conv->vectors * LANES;
    const int64_t channels = channels_at_once(conv), fitting = INPUTS_BYTES / (4 * step) / many * many;
    const int64_t at_once = fitting > LEAST_FRAMES ? fitting : LEAST_FRAMES;
    for (int64_t begin = 0; begin < frames; begin += at_once)
        for (int64_t panel = 0; panel < conv->out; panel += width)
            for (int64_t first = 0; first < conv->in; first += channels) {
                const int64_t end = frames - begin < at_once ? frames : begin + at_once;
                const int64_t last = conv->in - first < channels ? conv->in : first + channels;
                const float *weights = conv->weights + (panel * conv->in + first * width) * conv->taps;
                for (int64_t f = begin; f < end;) {
                    const int64_t count = end - f < many ? 1 : many, place = f * conv->out + panel;
                    const float *more = added == NULL || last < conv->in ? NULL : added + place;
                    (count == 1 ? ONE : MANY)[conv->vectors - 1](conv, weights, conv->bias + panel, x + f * step,
                                                                 first, last, more, out + place);
                    f += count;
                }
            }
}

/* From here on every operation is rounded by itself, unless it is called fused. */
#if defined(__clang__)
#pragma clang fp contract(off)
#define EXACT
#else
#define EXACT __attribute__((optimize("fp-contract=off")))
#endif

/* A number as the sum of a float and a smaller one, the error of the first. */
typedef struct {
    vec high, low;
} Pair;

INLINE EXACT Pair times(Pair a, vec b) {
    const vec high = a.high * b;
    return (Pair){high, fused(a.low, b, fused(a.high, b, -high))};
}

INLINE EXACT Pair times_pair(Pair a, Pair b) {
    const vec high = a.high * b.high;
    return (Pair){high, fused(a.high, b.low, fused(a.low, b.high, fused(a.high, b.high, -high)))};
}

INLINE EXACT Pair squared(Pair a) {
    const vec high = a.high * a.high;
    return (Pair){high, fused(a.high + a.high, a.low, fused(a.high, a.high, -high))};
}

/* a + b, where a is known to be the larger one. */
INLINE EXACT Pair plus(Pair a, Pair b) {
    const vec high = a.high + b.high;
    return (Pair){high, (b.high - (high - a.high)) + (a.low + b.low)};
}

INLINE EXACT Pair plus_constant(float a, Pair b) {
    const vec high = a + b.high;
    return (Pair){high, (b.high - (high - a)) + b.low};
}

/* exp(x) - 1 for x <= 0 in pairs, with the polynomial of SLEEF's function, which PyTorch calls, and the same bits. There
   all sums work for terms of any size; here the larger term is known, which saves half of the time. */
INLINE EXACT vec exp_minus_one(vec x) {
    const vec shifted = x * 1.442695040888963407f + 12582912.0f; /* 1.5 * 2^23: the last bits are the rounded integer */
    const vec whole = shifted - 12582912.0f;
    const vec near = fused(whole, broadcast(-0.693145751953125f), x), far = whole * -1.428606765330187045e-06f;
    const vec rest = near + far, step = rest - near;
    const Pair r = {rest, (near - (rest - step)) + (far - step)};
    vec u = broadcast(0.1980960224e-3f);
    u = fused(u, rest, broadcast(0.1394256484e-2f));
    u = fused(u, rest, broadcast(0.8333456703e-2f));
    u = fused(u, rest, broadcast(0.4166637361e-1f));
    Pair t = plus_constant(0.166666659414234244790680580464f, times(r, u));
    t = plus_constant(0.5f, times_pair(r, t));
    t = plus_constant(1.0f, plus(r, times_pair(squared(r), t)));
    const vec power = (vec)(((ivec)shifted - 0x4B400000 + 127) << 23);
    t = plus_constant(-1.0f, (Pair){t.high * power, t.low * power});
    return choose(x < -16.635532333438687426f, broadcast(-1.0f), t.high + t.low);
}

/* The numbers are a multiple of LANES; `out` may be x. */
EXACT void solfa_elu(const float *x, float *out, int64_t num) {
    for (int64_t i = 0; i < num; i += LANES) {
        const vec number = load(x + i);
        store(out + i, choose(number > 0.0f, number, exp_minus_one(number)));
    }
}

/* bfloat16: the upper half of a float. */
typedef uint16_t shorts __attribute__((vector_size(2 * LANES)));
typedef uint32_t uvec __attribute__((vector_size(4 * LANES)));

INLINE vec load_bf16(const uint16_t *from) {
    shorts bits;
    memcpy(&bits, from, sizeof bits);
    return (vec)(__builtin_convertvector(bits, uvec) << 16);
}

/* To the nearest, ties to the even one. What is no number keeps its upper bits, one of which is set. */
INLINE void store_bf16(uint16_t *to, vec x) {
    const uvec bits = (uvec)x, rounded = bits + 0x7FFF + ((bits >> 16) & 1);
    const uvec kept = (uvec)choose(x == x, (vec)rounded, (vec)(bits | 0x400000));
    const shorts upper = __builtin_convertvector(kept >> 16, shorts);
    memcpy(to, &upper, sizeof upper);
}

/* The ELU to 1e-7 of itself, which leaves no doubt in any of the 65,536 numbers how it is rounded to eight bits. */
EXACT void solfa_elu_bf16(const uint16_t *x, uint16_t *out, int64_t num) {
    for (int64_t i = 0; i < num; i += LANES) {
        const vec number = load_bf16(x + i);
        const vec low = choose(number < -20.0f, broadcast(-20.0f), number); /* where it is -1 in eight bits */
        const vec shifted = low * 1.44269504f + 12582912.0f, whole = shifted - 12582912.0f;
        const vec power = (vec)(((ivec)shifted - 0x4B400000 + 127) << 23);
        const vec r = fused(whole, broadcast(2.12194440e-4f), fused(whole, broadcast(-0.693359375f), low));
        vec p = fused(r, broadcast(1.0f / 720), broadcast(1.0f / 120));
        p = fused(p, r, broadcast(1.0f / 24));
        p = fused(p, r, broadcast(1.0f / 6));
        p = fused(p, r, broadcast(0.5f));
        p = fused(p * r, r, r);
        store_bf16(out + i, choose(number > 0.0f, number, fused(power, p, power - 1.0f)));
    }
}

/* out = x scale; says whether no number of it is beyond the limit. */
EXACT int32_t solfa_scale(const float *x, const float *scale, float *out, int64_t frames, int64_t channels, float limit) {
    ivec within = ~(ivec){0};
    for (int64_t f = 0; f < frames; f++)
        for (int64_t i = 0; i < channels; i += LANES) {
            const vec scaled = load(x + f * channels + i) * load(scale + i);
            within &= (scaled <= limit) & (scaled >= -limit);
            store(out + f * channels + i, scaled);
        }
    for (int i = 0; i < LANES; i++)
        if (!within[i])
            return 0;
    return 1;
}

/* wave = wave wave inverse + x */
EXACT void solfa_square_and_add(float *wave, const float *inverse, const float *x, int64_t frames, int64_t channels) {
    for (int64_t f = 0; f < frames; f++)
        for (int64_t i = 0; i < channels; i += LANES) {
            const int64_t place = f * channels + i;
            const vec sine = load(wave + place);
            const vec square = sine * sine;
            store(wave + place, square * load(inverse + i) + load(x + place));
        }
}
