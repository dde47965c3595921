/* Matrix products, for one clip or many.

   Matrices stand in panels of 64 outputs, [panel][input][output], after their biases: one clip's product is a stream of
   fused multiply-adds over memory that is read once, from front to end. Of many clips, as many go side by side as their
   sums fit into registers, so that what was read of a panel is used for all of them. Every sum runs over the inputs in
   their order and is the work of one lane, so a clip's numbers depend neither on how many clips there are nor on how
   wide the machine's vectors are.  */

#define PANEL 64
#define BLOCK 16
#define LINE 16 /* numbers that come from memory together */
#if LANES == 16
#define TILE_VECTORS 4 /* sums of 6 clips, 4 vectors of weights and an input take 29 of 32 registers */
#else
#define TILE_VECTORS 2 /* 15 of 16 */
#endif
#define TILE_CLIPS 6

INLINE void tile(const float *panel, int64_t panel_width, const float *bias, const float *in, int64_t in_width,
                 float *out, int64_t out_width, const int num_clips, const int num_vectors) {
    vec total[TILE_CLIPS * PANEL / LANES];
#pragma GCC unroll 8
    for (int c = 0; c < num_clips; c++)
#pragma GCC unroll 8
        for (int v = 0; v < num_vectors; v++)
            total[c * num_vectors + v] = load(bias + v * LANES);
    for (int64_t i = 0; i < in_width; i++, panel += panel_width) {
        vec weights[PANEL / LANES];
        /* While many clips use a panel, the next one comes. One clip waits for memory anyway, and would wait longer. */
        if (num_clips > 1)
#pragma GCC unroll 8
            for (int v = 0; v < num_vectors * LANES; v += LINE)
                __builtin_prefetch(panel + v + panel_width * in_width, 0, 2);
#pragma GCC unroll 8
        for (int v = 0; v < num_vectors; v++)
            weights[v] = load(panel + v * LANES);
#pragma GCC unroll 8
        for (int c = 0; c < num_clips; c++) {
            vec x = broadcast(in[c * in_width + i]);
#pragma GCC unroll 8
            for (int v = 0; v < num_vectors; v++)
                total[c * num_vectors + v] = fused(weights[v], x, total[c * num_vectors + v]);
        }
    }
#pragma GCC unroll 8
    for (int c = 0; c < num_clips; c++)
#pragma GCC unroll 8
        for (int v = 0; v < num_vectors; v++)
            store(out + c * out_width + v * LANES, total[c * num_vectors + v]);
}

/* Each number of clips is compiled for itself, with many vectors at once and with one. */
#define TILE(NAME, CLIPS, VECTORS)                                                                                     \
    static __attribute__((noinline)) void NAME(const float *panel, int64_t panel_width, const float *bias,             \
                                               const float *in, int64_t in_width, float *out, int64_t out_width) {     \
        tile(panel, panel_width, bias, in, in_width, out, out_width, CLIPS, VECTORS);                                  \
    }
#define TILES(CLIPS) TILE(tile_##CLIPS, CLIPS, TILE_VECTORS) TILE(narrow_tile_##CLIPS, CLIPS, 1)
typedef void (*Tile)(const float *, int64_t, const float *, const float *, int64_t, float *, int64_t);
TILE(tile_1, 1, PANEL / LANES)
TILE(narrow_tile_1, 1, 1)
TILES(2)
TILES(3)
TILES(4)
TILES(5)
TILES(6)
static const Tile WIDE_TILES[] = {tile_1, tile_2, tile_3, tile_4, tile_5, tile_6};
static const Tile NARROW_TILES[] = {narrow_tile_1, narrow_tile_2, narrow_tile_3,
                                    narrow_tile_4, narrow_tile_5, narrow_tile_6};

/* out = bias + in W, for all clips; gives where the weights after these begin. */
static const float *linear(const float *weights, const float *in, int64_t in_width, float *out, int64_t out_width,
                           int64_t num_clips) {
    const float *bias = weights, *panel = weights + out_width;
    int64_t num_tiles = (num_clips + TILE_CLIPS - 1) / TILE_CLIPS;
    for (int64_t at = 0; at < out_width; at += PANEL) {
        int64_t width = out_width - at < PANEL ? out_width - at : PANEL;
        for (int64_t t = 0; t < num_tiles; t++) {
            int64_t clip = num_clips * t / num_tiles, count = num_clips * (t + 1) / num_tiles - clip;
            int64_t vectors = count == 1 ? PANEL / LANES : TILE_VECTORS, v = 0;
            const float *from = in + clip * in_width;
            float *to = out + clip * out_width + at;
            for (; v + vectors * LANES <= width; v += vectors * LANES)
                WIDE_TILES[count - 1](panel + v, width, bias + at + v, from, in_width, to + v, out_width);
            for (; v < width; v += LANES)
                NARROW_TILES[count - 1](panel + v, width, bias + at + v, from, in_width, to + v, out_width);
        }
        panel += width * in_width;
    }
    return panel;
}
