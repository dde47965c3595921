/* Draws from what the network gives for a sample, and their exact log-probabilities, as the output heads define them. */

/* The first class whose cumulative probability is above the number: softmax in float32, sums in float64.
   `scratch` holds as many numbers as there are classes, rounded up to whole vectors. */
static int64_t draw_categorical(const float *logits, int64_t num_classes, double uniform, double temperature,
                                float *scratch, float *log_prob) {
    int64_t best = 0;
    for (int64_t k = 1; k < num_classes; k++)
        best = logits[k] > logits[best] ? k : best;
    float most = logits[best];
    double total = 0.0, plain_total = 0.0;
    for (int64_t k = 0; k < num_classes; k++)
        scratch[k] = logits[k] - most;
    for (int64_t k = num_classes; k % LANES; k++)
        scratch[k] = -INFINITY;
    if (temperature != 1.0)
        for (int64_t k = 0; k < num_classes; k += LANES) {
            vec e = exp_of(load(scratch + k));
            for (int i = 0; i < LANES && k + i < num_classes; i++)
                plain_total += e[i];
        }
    int64_t drawn = best;
    if (temperature > 0.0) {
        float divisor = (float)temperature;
        for (int64_t k = 0; k < num_classes; k += LANES) {
            vec e = exp_of(load(scratch + k) / divisor);
            store(scratch + k, e);
            for (int i = 0; i < LANES && k + i < num_classes; i++)
                total += e[i];
        }
        if (temperature == 1.0)
            plain_total = total;
        double wanted = uniform * total, cumulative = 0.0;
        for (drawn = 0; drawn < num_classes - 1; drawn++) {
            cumulative += scratch[drawn];
            if (cumulative > wanted)
                break;
        }
    }
    *log_prob = (float)((double)(logits[drawn] - most) - log(plain_total));
    return drawn;
}

typedef struct {
    int64_t num_classes, num_mixtures;
    float steps, log_steps, smallest_log_scale, largest_mean, low_log_scale, high_log_scale, far;
    const float *borders; /* between the classes; none if they divide the line equally */
} Grid;

static double log_sigmoid(double x) { return x < 0.0 ? x - log1p(exp(x)) : -log1p(exp(-x)); }

/* A component by the Gumbel numbers, a place by the logistic one, and its class. Means and scales are rounded to
   steps of the grid in float32, as the head does; what follows is in float64. */
static int64_t draw_mixture(const float *outputs, const Grid *grid, const float *noise, double temperature,
                            float *log_prob) {
    int64_t m = grid->num_mixtures, chosen = 0;
    const float *logits = outputs, *means = outputs + m, *log_scales = outputs + 2 * m;
    float warm = (float)temperature, highest = -INFINITY;
    float places[m], scales[m];
    for (int64_t i = 0; i < m; i++) {
        float mean = fminf(fmaxf(means[i], -grid->largest_mean), grid->largest_mean);
        places[i] = mean * grid->steps;
        float log_scale = fmaxf(log_scales[i], grid->smallest_log_scale) + grid->log_steps;
        scales[i] = fminf(fmaxf(log_scale, grid->low_log_scale), grid->high_log_scale);
        float score = logits[i] + warm * noise[i];
        if (score > highest)
            highest = score, chosen = i;
    }
    float step = places[chosen] + warm * expf(scales[chosen]) * noise[m];
    int64_t drawn, last = grid->num_classes - 1;
    double lower = -grid->far, upper = grid->far;
    if (grid->borders) {
        drawn = count_float_borders(grid->borders, last, step);
        lower = drawn == 0 ? lower : grid->borders[drawn - 1];
        upper = drawn == last ? upper : grid->borders[drawn];
    } else {
        double middle = last / 2.0;
        drawn = (int64_t)fminf(fmaxf(floorf(step + grid->num_classes / 2.0f), 0.0f), (float)last);
        lower = drawn == 0 ? lower : drawn - (middle + 0.5);
        upper = drawn == last ? upper : drawn - (middle - 0.5);
    }
    double mass[m], most = -INFINITY, heaviest = -INFINITY, total = 0.0, weight = 0.0;
    for (int64_t i = 0; i < m; i++) {
        double inverse = exp(-(double)scales[i]);
        double below = log_sigmoid((upper - places[i]) * inverse), above = log_sigmoid((places[i] - lower) * inverse);
        mass[i] = logits[i] + ((below + above) + log(-expm1((lower - upper) * inverse)));
        most = fmax(most, mass[i]);
        heaviest = fmax(heaviest, logits[i]);
    }
    for (int64_t i = 0; i < m; i++) {
        total += exp(mass[i] - most);
        weight += exp(logits[i] - heaviest);
    }
    *log_prob = (float)((most + log(total)) - (heaviest + log(weight)));
    return drawn;
}
