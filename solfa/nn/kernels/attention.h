/* One query that attends to keys and values in 16 bits, which are read once, from front to end. */

/* Sum of a product over a head, whose width is a multiple of LANES. */
INLINE float dot_half(const vec *query, const half *key, const int vectors) {
    vec total = {0};
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++)
        total += query[v] * load_half(key + v * LANES);
    return sum(total);
}

/* scores[n] = the weight of each step, times a constant; returns their sum. `scores` has room for whole vectors. */
INLINE float softmax_of(float *scores, int64_t num, float most) {
    vec total = {0};
    for (int64_t n = num; n % LANES; n++)
        scores[n] = -INFINITY;
    for (int64_t n = 0; n < num; n += LANES) {
        vec score = load(scores + n), weight = choose(score == -INFINITY, (vec){0}, exp_of(score - most));
        store(scores + n, weight);
        total += weight;
    }
    return sum(total);
}

INLINE void attend(const float *query, const half *keys, const half *values, int64_t num, const uint8_t *seen,
                   float *scores, float *out, const int vectors) {
    vec scaled[16], total[16];
    float scale = 1.0f / sqrtf((float)(vectors * LANES)), most = -INFINITY;
    int64_t width = vectors * LANES;
    for (int v = 0; v < vectors; v++) {
        scaled[v] = load(query + v * LANES) * scale;
        total[v] = (vec){0};
    }
    for (int64_t n = 0; n < num; n++) {
        float score = seen != NULL && !seen[n] ? -INFINITY : dot_half(scaled, keys + n * width, vectors);
        scores[n] = score;
        most = score > most ? score : most;
    }
    float sum_of_weights = softmax_of(scores, num, most);
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
