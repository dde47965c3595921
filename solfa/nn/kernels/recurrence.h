/* The recurrence of all modes of some channels, and its gradients, for numbers of the type REAL.

   A vector holds one number of each of LANES neighbouring channels, so that rows of [S, D] are read and written as they
   are. Of each mode, with a = decay:

       x_t = a x_{t-1} + u_t     y_t  = sum Re(w x_t) + skip u_t         forward in time
       m_t = a m_{t+1} + g_t     du_t = sum Re(w m_t) + skip g_t         backward in time, from the gradient g of y
       dw = conj sum g_t x_t     da = conj(w sum m_{t+1} x_t)

   Time goes in blocks that stay in the first cache. A block takes a few modes at a time, whose numbers stay in registers.
   The backward pass computes the x of a block again, from those that the forward pass kept before each block.

   A rounded decay would turn a little too far with every step. `drift` is by how much the power of a whole block is
   wrong, and what went through a block is corrected by it, so that errors do not grow with the number of blocks.  */

typedef REAL NAME(vec) __attribute__((vector_size(VECTOR_BYTES)));
#define vec NAME(vec)
#define LANES ((int64_t)(VECTOR_BYTES / sizeof(REAL)))

/* What a task needs while it runs, each for `modes` padded to whole groups. */
typedef struct {
    vec *a, *drift, *w, *state, *total; /* real and imaginary parts in turns */
    vec *u, *g, *out, *x;
} NAME(Memory);

INLINE NAME(Memory) NAME(divide)(vec *memory, int64_t padded) {
    NAME(Memory) m;
    m.a = memory, m.drift = m.a + 2 * padded, m.w = m.drift + 2 * padded, m.state = m.w + 2 * padded;
    m.total = m.state + 2 * padded;
    m.u = m.total + 4 * padded, m.g = m.u + BLOCK, m.out = m.g + BLOCK, m.x = m.out + BLOCK;
    return m;
}

/* Copy the channels of a vector from or to rows of all channels. */
INLINE void NAME(read_rows)(vec *to, const REAL *from, int64_t rows, int64_t stride, int64_t width) {
    for (int64_t t = 0; t < rows; t++) {
        vec v = {0};
        if (width == LANES)
            memcpy(&v, from + t * stride, sizeof v);
        else
            for (int64_t lane = 0; lane < width; lane++)
                v[lane] = from[t * stride + lane];
        to[t] = v;
    }
}

INLINE void NAME(write_rows)(REAL *to, const vec *from, int64_t rows, int64_t stride, int64_t width) {
    for (int64_t t = 0; t < rows; t++)
        if (width == LANES)
            memcpy(to + t * stride, &from[t], sizeof from[t]);
        else
            for (int64_t lane = 0; lane < width; lane++)
                to[t * stride + lane] = from[t][lane];
}

/* Gather a complex number of every mode and channel; modes that only fill a group are zero. */
static void NAME(read_modes)(vec *to, const REAL *from, int64_t modes, int64_t padded, int64_t width) {
    memset(to, 0, 2 * padded * sizeof(vec));
    for (int64_t lane = 0; lane < width; lane++)
        for (int64_t part = 0; part < 2 * modes; part++)
            to[part][lane] = from[lane * 2 * modes + part];
}

/* Add to `now` what a whole block made wrong of `before`. */
INLINE void NAME(correct)(vec *now, const vec *before, const vec *drift) {
    now[0] += drift[0] * before[0] - drift[1] * before[1];
    now[1] += drift[0] * before[1] + drift[1] * before[0];
}

static void NAME(listen)(const Job *job, int64_t task, vec *memory) {
    const int64_t groups = (job->channels + LANES - 1) / LANES, padded = PADDED(job->modes);
    const int64_t clip = task / groups, first = task % groups * LANES;
    const int64_t width = job->channels - first < LANES ? job->channels - first : LANES;
    const REAL *inputs = (const REAL *)job->inputs + clip * job->steps * job->channels + first;
    REAL *outputs = (REAL *)job->outputs + clip * job->steps * job->channels + first;
    NAME(Memory) m = NAME(divide)(memory, padded);
    vec skip;
    NAME(read_modes)(m.a, (const REAL *)job->decay + first * 2 * job->modes, job->modes, padded, width);
    NAME(read_modes)(m.drift, (const REAL *)job->drift + first * 2 * job->modes, job->modes, padded, width);
    NAME(read_modes)(m.w, (const REAL *)job->weights + first * 2 * job->modes, job->modes, padded, width);
    NAME(read_rows)(&skip, (const REAL *)job->skip + first, 1, 0, width);
    memset(m.state, 0, 2 * padded * sizeof(vec));
    vec *kept = job->states == NULL ? NULL : (vec *)job->states + task * job->blocks * 2 * padded;
    for (int64_t block = 0; block < job->blocks; block++) {
        const int64_t start = block * BLOCK, n = job->steps - start < BLOCK ? job->steps - start : BLOCK;
        NAME(read_rows)(m.u, inputs + start * job->channels, n, job->channels, width);
        for (int64_t t = 0; t < n; t++)
            m.out[t] = skip * m.u[t];
        if (kept != NULL)
            memcpy(kept + block * 2 * padded, m.state, 2 * padded * sizeof(vec));
        for (int64_t q = 0; q < 2 * padded; q += 2 * FORWARD_MODES) {
            vec x[2 * FORWARD_MODES], a[2 * FORWARD_MODES], w[2 * FORWARD_MODES], before[2 * FORWARD_MODES];
            for (int i = 0; i < 2 * FORWARD_MODES; i++)
                x[i] = before[i] = m.state[q + i], a[i] = m.a[q + i], w[i] = m.w[q + i];
            for (int64_t t = 0; t < n; t++) {
                const vec u = m.u[t];
                vec said = m.out[t], other = {0};
#pragma GCC unroll 8
                for (int i = 0; i < 2 * FORWARD_MODES; i += 2) {
                    const vec real = a[i] * x[i] + u - a[i + 1] * x[i + 1];
                    const vec imag = a[i] * x[i + 1] + a[i + 1] * x[i];
                    x[i] = real, x[i + 1] = imag;
                    said += w[i] * real;
                    other -= w[i + 1] * imag;
                }
                m.out[t] = said + other;
            }
            for (int i = 0; i < 2 * FORWARD_MODES; i += 2) {
                NAME(correct)(x + i, before + i, m.drift + q + i);
                m.state[q + i] = x[i], m.state[q + i + 1] = x[i + 1];
            }
        }
        NAME(write_rows)(outputs + start * job->channels, m.out, n, job->channels, width);
    }
}

/* Compute the x of some modes in a block again, from those before it. */
INLINE void NAME(repeat)(NAME(Memory) m, const vec *kept, int64_t q, int64_t n) {
    vec a[2 * FORWARD_MODES], x[2 * FORWARD_MODES];
    for (int i = 0; i < 2 * FORWARD_MODES; i++)
        a[i] = m.a[q + i], x[i] = kept[q + i];
    for (int64_t t = 0; t < n; t++) {
        const vec u = m.u[t];
#pragma GCC unroll 8
        for (int i = 0; i < 2 * FORWARD_MODES; i += 2) {
            const vec real = a[i] * x[i] + u - a[i + 1] * x[i + 1];
            const vec imag = a[i] * x[i + 1] + a[i + 1] * x[i];
            x[i] = m.x[t * 2 * FORWARD_MODES + i] = real;
            x[i + 1] = m.x[t * 2 * FORWARD_MODES + i + 1] = imag;
        }
    }
}

static void NAME(learn)(const Job *job, int64_t task, vec *memory) {
    const int64_t groups = (job->channels + LANES - 1) / LANES, padded = PADDED(job->modes);
    const int64_t clip = task / groups, first = task % groups * LANES;
    const int64_t width = job->channels - first < LANES ? job->channels - first : LANES;
    const int64_t offset = clip * job->steps * job->channels + first;
    const REAL *inputs = (const REAL *)job->inputs + offset, *gradient = (const REAL *)job->gradient + offset;
    REAL *of_inputs = (REAL *)job->outputs + offset;
    NAME(Memory) m = NAME(divide)(memory, padded);
    vec skip, of_skip = {0};
    NAME(read_modes)(m.a, (const REAL *)job->decay + first * 2 * job->modes, job->modes, padded, width);
    NAME(read_modes)(m.drift, (const REAL *)job->drift + first * 2 * job->modes, job->modes, padded, width);
    NAME(read_modes)(m.w, (const REAL *)job->weights + first * 2 * job->modes, job->modes, padded, width);
    NAME(read_rows)(&skip, (const REAL *)job->skip + first, 1, 0, width);
    memset(m.state, 0, 2 * padded * sizeof(vec));
    memset(m.total, 0, 4 * padded * sizeof(vec));
    const vec *kept = (const vec *)job->states + task * job->blocks * 2 * padded;
    for (int64_t block = job->blocks - 1; block >= 0; block--) {
        const int64_t start = block * BLOCK, n = job->steps - start < BLOCK ? job->steps - start : BLOCK;
        NAME(read_rows)(m.u, inputs + start * job->channels, n, job->channels, width);
        NAME(read_rows)(m.g, gradient + start * job->channels, n, job->channels, width);
        vec of_block = {0};
        for (int64_t t = 0; t < n; t++) {
            m.out[t] = skip * m.g[t];
            of_block += m.g[t] * m.u[t];
        }
        of_skip += of_block;
        for (int64_t q = 0; q < 2 * padded; q += 2 * BACKWARD_MODES) {
            vec a[2 * BACKWARD_MODES], x[2 * BACKWARD_MODES], before[2 * BACKWARD_MODES], w[2 * BACKWARD_MODES];
            const int64_t within = q % (2 * FORWARD_MODES);
            if (within == 0) /* more modes at a time: a step has to wait for the one before */
                NAME(repeat)(m, kept + block * 2 * padded, q, n);
            for (int i = 0; i < 2 * BACKWARD_MODES; i++)
                a[i] = m.a[q + i];
            vec sums[4 * BACKWARD_MODES] = {0};
            for (int i = 0; i < 2 * BACKWARD_MODES; i++)
                x[i] = before[i] = m.state[q + i], w[i] = m.w[q + i]; /* x is the m of above here */
            for (int64_t t = n - 1; t >= 0; t--) {
                const vec g = m.g[t], *past = m.x + t * 2 * FORWARD_MODES + within;
                vec said = m.out[t], other = {0};
#pragma GCC unroll 8
                for (int i = 0; i < 2 * BACKWARD_MODES; i += 2) {
                    const vec real = past[i], imag = past[i + 1];
                    sums[2 * i] += g * real;
                    sums[2 * i + 1] += g * imag;
                    sums[2 * i + 2] += x[i] * real - x[i + 1] * imag;
                    sums[2 * i + 3] += x[i] * imag + x[i + 1] * real;
                    const vec next = a[i] * x[i] + g - a[i + 1] * x[i + 1];
                    x[i + 1] = a[i] * x[i + 1] + a[i + 1] * x[i];
                    x[i] = next;
                    said += w[i] * x[i];
                    other -= w[i + 1] * x[i + 1];
                }
                m.out[t] = said + other;
            }
            for (int i = 0; i < 2 * BACKWARD_MODES; i += 2) {
                NAME(correct)(x + i, before + i, m.drift + q + i);
                m.state[q + i] = x[i], m.state[q + i + 1] = x[i + 1];
            }
            for (int i = 0; i < 4 * BACKWARD_MODES; i++)
                m.total[2 * q + i] += sums[i];
        }
        NAME(write_rows)(of_inputs + start * job->channels, m.out, n, job->channels, width);
    }
    REAL *of_modes = (REAL *)job->of_modes + (clip * job->channels + first) * 4 * job->modes;
    for (int64_t lane = 0; lane < width; lane++)
        for (int64_t part = 0; part < 4 * job->modes; part++)
            of_modes[lane * 4 * job->modes + part] = m.total[part][lane];
    NAME(write_rows)((REAL *)job->of_skip + clip * job->channels + first, &of_skip, 1, 0, width);
}

static void NAME(share_out)(void *argument, int64_t thread, void *team) {
    const Job *job = argument;
    const int64_t tasks = job->clips * ((job->channels + LANES - 1) / LANES);
    vec *memory = (vec *)((char *)job->memory + thread * memory_bytes(job->modes));
    for (int64_t task = share(tasks, thread, team); task < share(tasks, thread + 1, team); task++)
        (job->gradient == NULL ? NAME(listen) : NAME(learn))(job, task, memory);
}

#undef vec
#undef LANES
