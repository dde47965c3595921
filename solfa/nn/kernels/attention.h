/* One query that attends to keys and values in 16 bits, or in 8 with a scale for each step. They are read once, from front
   to end:

       float16   keys and values [step][channel]
       int8      keys [step][channel], values [step / 4][channel][4]

   Integers are multiplied by integers, or reading them would take less time than computing with them: keys by the query in
   16 bits, values by the steps' weights in 14, which are two times 7.  */

#define MOST_VECTORS 16 /* heads of 128 channels */

/* The keys or values of one head. */
typedef struct {
    void *numbers;
    float *scales; /* [step], of 8-bit integers; NULL: float16 */
} Kept;

INLINE Kept head_of(Kept all, int64_t first_step, int64_t width) {
    if (all.scales == NULL)
        return (Kept){(half *)all.numbers + first_step * width, NULL};
    return (Kept){(int8_t *)all.numbers + first_step * width, all.scales + first_step};
}

/* The products of a head with a key, to be summed; its width is a multiple of LANES. */
INLINE vec times_half(const vec *query, const half *key, const int vectors) {
    vec total = {0};
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++)
        total += query[v] * load_half(key + v * LANES);
    return total;
}

/* The same for integers; the width is a multiple of 2 LANES. */
INLINE vec times_bytes(const ivec *query, const int8_t *key, const int vectors) {
    ivec total = {0};
#pragma GCC unroll 8
    for (int v = 0; v < vectors / 2; v++)
        total = add_pairs(total, load_pairs(key + 2 * v * LANES), query[v]);
    return __builtin_convertvector(total, vec);
}

/* The sums of LANES vectors: halves of pairs are added until one number of each is left. A few shuffles for each, where
 * `sum` takes a dozen, which would be half of the work. */
INLINE vec sums_of(const vec *v) {
#if (defined(__clang__) || __GNUC__ >= 12) && LANES == 16
#define EIGHTS(a, b)                                                                                                   \
    (__builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) +                           \
     __builtin_shufflevector(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31))
#define FOURS(a, b)                                                                                                    \
    (__builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27) +                         \
     __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31))
#define TWOS(a, b)                                                                                                     \
    (__builtin_shufflevector(a, b, 0, 1, 4, 5, 8, 9, 12, 13, 16, 17, 20, 21, 24, 25, 28, 29) +                         \
     __builtin_shufflevector(a, b, 2, 3, 6, 7, 10, 11, 14, 15, 18, 19, 22, 23, 26, 27, 30, 31))
#define ONES(a, b)                                                                                                     \
    (__builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30) +                        \
     __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31))
    vec four[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        four[i] = FOURS(EIGHTS(v[4 * i], v[4 * i + 1]), EIGHTS(v[4 * i + 2], v[4 * i + 3]));
    vec low = TWOS(four[0], four[1]), high = TWOS(four[2], four[3]);
    return ONES(low, high);
#elif defined(__clang__) || __GNUC__ >= 12
#define FOURS(a, b)                                                                                                    \
    (__builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11) + __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15))
#define TWOS(a, b)                                                                                                     \
    (__builtin_shufflevector(a, b, 0, 1, 4, 5, 8, 9, 12, 13) + __builtin_shufflevector(a, b, 2, 3, 6, 7, 10, 11, 14, 15))
#define ONES(a, b)                                                                                                     \
    (__builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14) + __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15))
    vec low = TWOS(FOURS(v[0], v[1]), FOURS(v[2], v[3])), high = TWOS(FOURS(v[4], v[5]), FOURS(v[6], v[7]));
    return ONES(low, high);
#else
    vec sums;
    for (int i = 0; i < LANES; i++)
        sums[i] = sum(v[i]);
    return sums;
#endif
}

/* scores[n] = the weight of each step, times a constant; returns their sum. `scores` has room for whole vectors. */
INLINE float softmax_of(float *scores, int64_t num) {
    vec total = {0}, highest = broadcast(-INFINITY);
    for (int64_t n = num; n % LANES; n++)
        scores[n] = -INFINITY;
    for (int64_t n = 0; n < num; n += LANES) {
        vec score = load(scores + n);
        highest = choose(score > highest, score, highest);
    }
    float most = largest(highest);
    for (int64_t n = 0; n < num; n += LANES) {
        vec score = load(scores + n), weight = choose(score == -INFINITY, (vec){0}, exp_of(score - most));
        store(scores + n, weight);
        total += weight;
    }
    return sum(total);
}

/* scores = the products of the query with each key, given TIMES(step). */
#define SCORE_ALL(TIMES)                                                                                               \
    for (int64_t n = 0; n < whole; n += LANES) {                                                                       \
        vec products[LANES];                                                                                           \
        _Pragma("GCC unroll 16") for (int i = 0; i < LANES; i++) products[i] = TIMES(n + i);                           \
        store(scores + n, sums_of(products));                                                                          \
    }                                                                                                                  \
    for (int64_t n = whole; n < num; n++)                                                                              \
        scores[n] = sum(TIMES(n));

INLINE void attend_halves(const float *query, const half *keys, const half *values, int64_t num, const uint8_t *seen,
                          float *scores, float *out, const int vectors) {
    vec scaled[MOST_VECTORS], total[MOST_VECTORS];
    int64_t width = vectors * LANES, whole = num / LANES * LANES;
    float scale = 1.0f / sqrtf((float)width);
    for (int v = 0; v < vectors; v++) {
        scaled[v] = load(query + v * LANES) * scale;
        total[v] = (vec){0};
    }
#define TIMES_HALF(N) times_half(scaled, keys + (N) * width, vectors)
    SCORE_ALL(TIMES_HALF)
    for (int64_t n = 0; seen != NULL && n < num; n++)
        scores[n] = seen[n] ? scores[n] : -INFINITY;
    float sum_of_weights = softmax_of(scores, num);
    for (int64_t n = 0; n < num; n++) {
        vec weight = broadcast(scores[n]);
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++)
            total[v] += weight * load_half(values + n * width + v * LANES);
    }
    for (int v = 0; v < vectors; v++)
        store(out + v * LANES, total[v] / sum_of_weights);
}

#define LARGEST_14 16383
#define STEPS_AT_ONCE 128 /* whose values stay in the nearest cache until all their channels are done */

/* weight = unit (128 high + low) for each step, with its scale; returns the unit. */
INLINE float round_weights(float *weights, const float *scales, int64_t num, uint8_t *high, uint8_t *low) {
    vec most = broadcast(1e-30f);
    for (int64_t n = 0; n < num; n += LANES) {
        vec weight = load(weights + n) * load(scales + n);
        most = choose(weight > most, weight, most);
        store(weights + n, weight);
    }
    float unit = largest(most) / LARGEST_14, per_unit = 1.0f / unit;
    for (int64_t n = 0; n < num; n += LANES) {
        ivec integer = (ivec)(load(weights + n) * per_unit + 12582912.0f) - 0x4B400000; /* as `nearest` */
        store_bytes(high + n, integer >> 7);
        store_bytes(low + n, integer & 127);
    }
    return unit;
}

/* Room for weights, their high and their low bytes. */
#define SCORE_BYTES 6

INLINE void attend_bytes(const float *query, Kept keys, Kept values, int64_t num, float *scores, int64_t scores_width,
                         float *out, const int vectors) {
    ivec rounded[MOST_VECTORS / 2];
    int64_t width = vectors * LANES, whole = num / LANES * LANES;
    float peak = peak_of(query, width), scale = peak / LARGEST_16 / sqrtf((float)width);
    int16_t *words = (int16_t *)rounded;
    for (int64_t e = 0; e < width; e++)
        words[e] = (int16_t)nearest(query[e] * (LARGEST_16 / peak));
#define TIMES_BYTES(N) times_bytes(rounded, (const int8_t *)keys.numbers + (N) * width, vectors)
    SCORE_ALL(TIMES_BYTES)
    for (int64_t n = 0; n < num; n += LANES)
        store(scores + n, load(scores + n) * load(keys.scales + n) * scale);
    float sum_of_weights = softmax_of(scores, num);
    uint8_t *high = (uint8_t *)(scores + scores_width), *low = high + scores_width;
    float unit = round_weights(scores, values.scales, num, high, low);
    vec made[MOST_VECTORS] = {{0}};
    for (int64_t begin = 0; begin < num; begin += STEPS_AT_ONCE) {
        int64_t stop = begin + STEPS_AT_ONCE < num ? begin + STEPS_AT_ONCE : num;
        for (int first = 0; first < vectors; first += 4) {
            const int some = vectors - first < 4 ? vectors - first : 4;
            ivec above[4] = {{0}}, below[4] = {{0}};
            for (int64_t n = begin; n < stop; n += 4) {
                ivec a = broadcast_word(high + n), b = broadcast_word(low + n);
                const int8_t *four = (const int8_t *)values.numbers + n * width + 4 * first * LANES;
#pragma GCC unroll 4
                for (int v = 0; v < some; v++) {
                    ivec bytes = load_words(four + 4 * v * LANES);
                    above[v] = add_quads(above[v], a, bytes);
                    below[v] = add_quads(below[v], b, bytes);
                }
            }
            for (int v = 0; v < some; v++)
                made[first + v] +=
                    128.0f * __builtin_convertvector(above[v], vec) + __builtin_convertvector(below[v], vec);
        }
    }
    for (int v = 0; v < vectors; v++)
        store(out + v * LANES, made[v] * (unit / sum_of_weights));
}

/* The usual width is compiled for itself. */
static void attend_head(const float *query, Kept keys, Kept values, int64_t num, const uint8_t *seen, float *scores,
                        int64_t scores_width, float *out, int64_t width) {
    if (keys.scales != NULL && width == 64)
        attend_bytes(query, keys, values, num, scores, scores_width, out, 64 / LANES);
    else if (keys.scales != NULL)
        attend_bytes(query, keys, values, num, scores, scores_width, out, width / LANES);
    else if (width == 64)
        attend_halves(query, keys.numbers, values.numbers, num, seen, scores, out, 64 / LANES);
    else
        attend_halves(query, keys.numbers, values.numbers, num, seen, scores, out, width / LANES);
}

/* Turn pairs (e, e + width / 2) by their angles, in place. */
static void rotate(float *x, const float *cosine, const float *sine, int64_t width) {
    for (int64_t e = 0; e < width / 2; e++) {
        float first = x[e], second = x[e + width / 2];
        x[e] = first * cosine[e] - second * sine[e];
        x[e + width / 2] = second * cosine[e + width / 2] + first * sine[e + width / 2];
    }
}

/* Keep the keys of a step of a head, or the values, of which those of `side` steps stand beside each other. Of 8 bits, the
   largest magnitude becomes LARGEST_8. */
static void keep(Kept head, int64_t step, const float *x, int64_t width, int64_t side) {
    if (head.scales == NULL) {
        for (int64_t e = 0; e < width; e += LANES)
            store_half((half *)head.numbers + step * width + e, load(x + e));
        return;
    }
    float scale = peak_of(x, width) / LARGEST_8, per_unit = 1.0f / scale;
    int8_t *to = (int8_t *)head.numbers + step / side * side * width + step % side;
    head.scales[step] = scale;
    for (int64_t e = 0; e < width; e++)
        to[e * side] = (int8_t)nearest(x[e] * per_unit);
}
