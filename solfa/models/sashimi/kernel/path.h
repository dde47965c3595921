/* The linear path: the last amplitudes of each clip, what the fixed predictor makes of them, and the means around it. */

typedef struct {
    int64_t order;              /* 0: there is none */
    int64_t num_borders;        /* of the cells that residuals are read as */
    const double *coefficients; /* for the latest amplitude first */
    const double *borders;
    const float *amplitudes; /* of each class; the last is the start of a clip */
    const float *residuals;  /* [cell][padded], and one row more for the start of a clip */
    const float *whitening;  /* [amplitude][number]: transposed */
    float error, largest_log_scale;
    float *past;             /* [clip][order], the latest first */
    double *predictions;     /* [clip] */
    int64_t opening_samples; /* 0: how loud a clip began is not read */
    int64_t num_level_borders;
    double opening_unit; /* what amplitude 1 is rounded to */
    const double *level_borders;
    const float *amplitude_levels, *residual_levels; /* [cell][padded], and one row more: nothing was heard yet */
    int64_t *opening;                                /* [clip][energy of amplitudes, of residuals, count] */
} Path;

/* Coefficients and amplitudes are float32, so every product is exact: fused or not, the sum is the network's to the bit,
   and so is the cell that a residual is in. */
static void predict(const Path *path, int64_t clip) {
    const float *past = path->past + clip * path->order;
    double total = 0.0;
    for (int64_t k = 0; k < path->order; k++)
        total = total + path->coefficients[k] * (double)past[k];
    path->predictions[clip] = total;
}

/* How many borders are at most x. */
#define COUNT_BORDERS(NAME, NUMBER)                                                                                    \
    static int64_t NAME(const NUMBER *borders, int64_t count, NUMBER x) {                                              \
        int64_t low = 0;                                                                                               \
        while (count > 0) {                                                                                            \
            int64_t half = count / 2;                                                                                  \
            if (borders[low + half] <= x)                                                                              \
                low += half + 1, count -= half + 1;                                                                    \
            else                                                                                                       \
                count = half;                                                                                          \
        }                                                                                                              \
        return low;                                                                                                    \
    }
COUNT_BORDERS(count_borders, double)
COUNT_BORDERS(count_float_borders, float)

static int64_t energy_of(const Path *path, double value) {
    int64_t whole = (int64_t)nearbyint(fmin(fmax(value, -1.0), 1.0) * path->opening_unit);
    return whole * whole;
}

static int64_t level_cell(const Path *path, int64_t energy, int64_t count) {
    if (!count)
        return path->num_level_borders + 1;
    return count_borders(path->level_borders, path->num_level_borders, (double)energy / (double)count);
}

/* Hear one of the first samples. Energies are integers, so that the network finds the same cells. */
static void hear_opening(const Path *path, int64_t *heard, double amplitude, double residual) {
    if (heard[2] == path->opening_samples)
        return;
    heard[0] += energy_of(path, amplitude);
    heard[1] += energy_of(path, residual);
    heard[2]++;
}

/* Add the embeddings of the residual and of the beginning to that of the class, and remember the amplitude. */
static void read_amplitude(const Path *path, int64_t clip, int64_t class, int64_t num_classes, float *x,
                           int64_t padded) {
    double residual = (double)path->amplitudes[class] - path->predictions[clip];
    int64_t cell = class == num_classes ? path->num_borders + 1
                                        : count_borders(path->borders, path->num_borders, residual);
    const float *row = path->residuals + cell * padded;
    if (path->opening_samples) {
        int64_t *heard = path->opening + 3 * clip;
        if (class != num_classes)
            hear_opening(path, heard, path->amplitudes[class], residual);
        const float *loudness = path->amplitude_levels + level_cell(path, heard[0], heard[2]) * padded;
        const float *roughness = path->residual_levels + level_cell(path, heard[1], heard[2]) * padded;
        for (int64_t i = 0; i < padded; i += LANES)
            store(x + i, load(x + i) + (load(row + i) + (load(loudness + i) + load(roughness + i))));
    } else {
        for (int64_t i = 0; i < padded; i += LANES)
            store(x + i, load(x + i) + load(row + i));
    }
    float *past = path->past + clip * path->order;
    memmove(past + 1, past, (path->order - 1) * sizeof(float));
    past[0] = path->amplitudes[class];
    predict(path, clip);
}

/* Turn logits, offsets, log-scales and the path's own outputs into logits, means and log-scales. */
static void place_means(const Path *path, int64_t clip, float *outputs, int64_t num_mixtures) {
    int64_t order = path->order;
    const float *past = path->past + clip * order, *turns = outputs + 3 * num_mixtures;
    float white[order], turned = 0.0f;
    memset(white, 0, sizeof white);
    for (int64_t j = 0; j < order; j++)
        for (int64_t k = 0; k < order; k++)
            white[k] += path->whitening[j * order + k] * past[j];
    for (int64_t k = 0; k < order; k++)
        turned += turns[k] * white[k];
    float centre = (float)path->predictions[clip] + path->error * turned;
    centre = fminf(fmaxf(centre, -1.0f), 1.0f);
    float *offsets = outputs + num_mixtures, *log_scales = outputs + 2 * num_mixtures;
    for (int64_t i = 0; i < num_mixtures; i++) {
        log_scales[i] = fminf(log_scales[i], path->largest_log_scale);
        offsets[i] = centre + expf(log_scales[i]) * offsets[i];
    }
}
