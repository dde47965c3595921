/* One query that attends to keys and values in 16 bits, which are read once, from front to end. */

#define MOST_VECTORS 16 /* heads of 128 channels */

/* The products of a head with a key, to be summed; its width is a multiple of LANES. */
INLINE vec times_half(const vec *query, const half *key, const int vectors) {
    vec total = {0};
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++)
        total += query[v] * load_half(key + v * LANES);
    return total;
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

INLINE void attend(const float *query, const half *keys, const half *values, int64_t num, const uint8_t *seen,
                   float *scores, float *out, const int vectors) {
    vec scaled[MOST_VECTORS], total[MOST_VECTORS];
    float scale = 1.0f / sqrtf((float)(vectors * LANES));
    int64_t width = vectors * LANES;
    for (int v = 0; v < vectors; v++) {
        scaled[v] = load(query + v * LANES) * scale;
        total[v] = (vec){0};
    }
    int64_t whole = num / LANES * LANES;
    for (int64_t n = 0; n < whole; n += LANES) {
        vec products[LANES];
#pragma GCC unroll 16
        for (int i = 0; i < LANES; i++)
            products[i] = times_half(scaled, keys + (n + i) * width, vectors);
        store(scores + n, sums_of(products));
    }
    for (int64_t n = whole; n < num; n++)
        scores[n] = sum(times_half(scaled, keys + n * width, vectors));
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

static void attend_64(const float *query, const half *keys, const half *values, int64_t num, const uint8_t *seen,
                      float *scores, float *out) {
    attend(query, keys, values, num, seen, scores, out, 64 / LANES);
}

static void attend_head(const float *query, const half *keys, const half *values, int64_t num, const uint8_t *seen,
                        float *scores, float *out, int64_t head_dim) {
    if (head_dim == 64)
        attend_64(query, keys, values, num, seen, scores, out);
    else
        attend(query, keys, values, num, seen, scores, out, head_dim / LANES);
}

/* Turn pairs (e, e + width / 2) by their angles, in place. */
static void rotate(float *x, const float *cosine, const float *sine, int64_t width) {
    for (int64_t e = 0; e < width / 2; e++) {
        float first = x[e], second = x[e + width / 2];
        x[e] = first * cosine[e] - second * sine[e];
        x[e + width / 2] = second * cosine[e + width / 2] + first * sine[e + width / 2];
    }
}

static void store_halves(half *to, const float *x, int64_t width) {
    for (int64_t e = 0; e < width; e += LANES)
        store_half(to + e, load(x + e));
}
