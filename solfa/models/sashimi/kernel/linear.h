/* Matrix products, for one clip or many.

   Matrices stand in panels of 64 outputs, [panel][input][output], after their biases: one clip's product is a stream of
   fused multiply-adds over memory that is read once, from front to end. Of many clips, four go side by side. Every sum
   runs over the inputs in their order, so a clip's numbers do not depend on how many there are.  */

#define PANEL 64
#define BLOCK 16

INLINE void tile(const float *panel, int64_t panel_width, const float *bias, const float *in, int64_t in_width,
                 float *out, int64_t out_width, const int num_clips, const int num_vectors) {
    vec total[4 * 8];
#pragma GCC unroll 8
    for (int c = 0; c < num_clips; c++)
#pragma GCC unroll 8
        for (int v = 0; v < num_vectors; v++)
            total[c * num_vectors + v] = load(bias + v * LANES);
    for (int64_t i = 0; i < in_width; i++) {
        const float *row = panel + i * panel_width;
#pragma GCC unroll 8
        for (int c = 0; c < num_clips; c++) {
            vec x = broadcast(in[c * in_width + i]);
#pragma GCC unroll 8
            for (int v = 0; v < num_vectors; v++)
                total[c * num_vectors + v] += load(row + v * LANES) * x;
        }
    }
#pragma GCC unroll 8
    for (int c = 0; c < num_clips; c++)
#pragma GCC unroll 8
        for (int v = 0; v < num_vectors; v++)
            store(out + c * out_width + v * LANES, total[c * num_vectors + v]);
}

static void tile_4_by_16(const float *panel, int64_t panel_width, const float *bias, const float *in, int64_t in_width,
                         float *out, int64_t out_width) {
    tile(panel, panel_width, bias, in, in_width, out, out_width, 4, 2);
}

static void tile_1_by_64(const float *panel, const float *bias, const float *in, int64_t in_width, float *out) {
    tile(panel, PANEL, bias, in, in_width, out, 0, 1, 8);
}

static void tile_1_by_16(const float *panel, int64_t panel_width, const float *bias, const float *in, int64_t in_width,
                         float *out) {
    tile(panel, panel_width, bias, in, in_width, out, 0, 1, 2);
}

/* out = bias + in W, for all clips; gives where the weights after these begin. */
static const float *linear(const float *weights, const float *in, int64_t in_width, float *out, int64_t out_width,
                           int64_t num_clips) {
    const float *bias = weights, *panel = weights + out_width;
    for (int64_t at = 0; at < out_width; at += PANEL) {
        int64_t width = out_width - at < PANEL ? out_width - at : PANEL, whole = num_clips / 4 * 4;
        for (int64_t v = 0; v < width; v += BLOCK)
            for (int64_t clip = 0; clip < whole; clip += 4)
                tile_4_by_16(panel + v, width, bias + at + v, in + clip * in_width, in_width,
                             out + clip * out_width + at + v, out_width);
        for (int64_t clip = whole; clip < num_clips; clip++) {
            const float *from = in + clip * in_width;
            float *to = out + clip * out_width + at;
            if (width == PANEL)
                tile_1_by_64(panel, bias + at, from, in_width, to);
            else
                for (int64_t v = 0; v < width; v += BLOCK)
                    tile_1_by_16(panel + v, width, bias + at + v, from, in_width, to + v);
        }
        panel += width * in_width;
    }
    return panel;
}
