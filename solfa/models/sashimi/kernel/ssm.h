/* State spaces, step by step.

   A layer keeps 2 C s where the definition keeps s, so that what it says is the sum of real parts. States and
   coefficients are much memory for little arithmetic, so they are touched only every BURST steps: within a burst, the
   output is what the states at its begin still say, computed in advance, plus a convolution with the inputs since.
   With decay = a + ib, powers of it follow a real recurrence, z^(l+1) = 2a z^l - (a^2 + b^2) z^(l-1): three operations
   for each step and mode (Goertzel). A block of channels stands side by side, mode after mode.  */

#define BURST 8

/* What a layer remembers of its clips. Clips stand beside each other, so that all of it is read from front to end. */
typedef struct {
    float *states;        /* [block][clip][mode][real, imaginary][channel of the block] */
    float *inputs, *free; /* [step of a burst][clip][padded] */
} Memory;

static Memory memory_of(const Tier *tier, int64_t layer, int64_t num_clips) {
    int64_t count = num_clips * tier->padded, states = 2 * count * tier->modes, burst = BURST * count;
    float *begin = tier->memory + layer * (states + 2 * burst);
    return (Memory){begin, begin + states, begin + states + burst};
}

/* The first values of the kernel and, for each mode, seven coefficients: decay, minus its square radius, its power
   over a burst, and 2 C gain. */
static int64_t system_size(const Tier *tier) { return (BURST + 7 * tier->modes) * tier->padded; }

/* What a vector of channels will still say of their states over the next BURST steps, when nothing more comes in. */
INLINE void free_response(const float *system, const float *states, int64_t modes, float *out, int64_t stride) {
    vec totals[BURST] = {{0}};
    for (int64_t q = 0; q < modes; q++, system += 7 * BLOCK, states += 2 * BLOCK) {
        vec p = 2.0f * load(system), m = load(system + 2 * BLOCK);
        vec before = load(states), now = load(system) * before - load(system + BLOCK) * load(states + BLOCK);
#pragma GCC unroll 8
        for (int i = 0; i < BURST; i++) {
            totals[i] += now;
            vec next = p * now + m * before;
            before = now;
            now = next;
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < BURST; i++)
        store(out + i * stride, totals[i]);
}

/* The states of a vector of channels after BURST inputs. */
INLINE void advance(const float *system, float *states, int64_t modes, const float *in, int64_t stride) {
    vec inputs[BURST];
#pragma GCC unroll 8
    for (int i = 0; i < BURST; i++)
        inputs[i] = load(in + i * stride);
    for (int64_t q = 0; q < modes; q++, system += 7 * BLOCK, states += 2 * BLOCK) {
        vec p = 2.0f * load(system), m = load(system + 2 * BLOCK);
        vec before = inputs[0], now = p * before + inputs[1];
#pragma GCC unroll 8
        for (int i = 2; i < BURST; i++) {
            vec next = p * now + (m * before + inputs[i]);
            before = now;
            now = next;
        }
        vec sum_real = now - load(system) * before, sum_imag = load(system + BLOCK) * before;
        vec power_real = load(system + 3 * BLOCK), power_imag = load(system + 4 * BLOCK);
        vec gain_real = load(system + 5 * BLOCK), gain_imag = load(system + 6 * BLOCK);
        vec real = load(states), imag = load(states + BLOCK);
        store(states, power_real * real - power_imag * imag + (gain_real * sum_real - gain_imag * sum_imag));
        store(states + BLOCK, power_real * imag + power_imag * real + (gain_real * sum_imag + gain_imag * sum_real));
    }
}

/* All free responses; before them, unless it is the beginning, all states after a burst of inputs. A system is read once
   for all clips. */
INLINE void respond(const Tier *tier, const float *system, Memory memory, int64_t num_clips, const int begins) {
    int64_t modes = tier->modes, padded = tier->padded, stride = num_clips * padded;
    float *states = memory.states;
    for (int64_t block = 0; block < padded; block += BLOCK, system += 7 * BLOCK * modes)
        for (int64_t clip = 0; clip < num_clips; clip++, states += 2 * BLOCK * modes)
            for (int64_t c = 0; c < BLOCK; c += LANES) {
                int64_t at = clip * padded + block + c;
                if (!begins)
                    advance(system + c, states + c, modes, memory.inputs + at, stride);
                free_response(system + c, states + c, modes, memory.free + at, stride);
            }
}

static void recur(const Tier *tier, const float *kernel, Memory memory, float *u, int64_t num_clips) {
    int64_t padded = tier->padded, at = tier->burst, count = num_clips * padded;
    memcpy(memory.inputs + at * count, u, count * sizeof(float));
    for (int64_t clip = 0; clip < count; clip += padded)
        for (int64_t c = 0; c < padded; c += LANES) {
            vec said = load(memory.free + at * count + clip + c);
            for (int64_t i = 0; i <= at; i++)
                said = fused(load(kernel + (at - i) * padded + c), load(memory.inputs + i * count + clip + c), said);
            store(u + clip + c, gelu(said));
        }
    if (at + 1 == BURST)
        respond(tier, kernel + BURST * padded, memory, num_clips, 0);
}
