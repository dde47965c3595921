/* State spaces, step by step.

   A layer keeps 2 C s where the definition keeps s, so that what it says is the sum of real parts. States and
   coefficients are much memory for little arithmetic, so they are touched only every BURST steps: within a burst, the
   output is what the states at its begin still say, computed in advance, plus a convolution with the inputs since.
   With decay = a + ib, powers of it follow a real recurrence, z^(l+1) = 2a z^l - (a^2 + b^2) z^(l-1): three operations
   for each step and mode (Goertzel). Eight channels stand side by side, mode after mode.  */

#define BURST 8

/* What a layer remembers of a clip. */
typedef struct {
    float *states, *inputs, *free;
} Memory;

static Memory memory_of(const Tier *tier, int64_t layer, int64_t clip) {
    int64_t burst = BURST * tier->padded, states = 2 * tier->padded * tier->modes;
    float *begin = tier->memory + (clip * (tier->num_down + tier->num_up) + layer) * (states + 2 * burst);
    return (Memory){begin, begin + states, begin + states + burst};
}

/* The first values of the kernel and, for each mode, seven coefficients: decay, minus its square radius, its power
   over a burst, and 2 C gain. */
static int64_t system_size(const Tier *tier) { return (BURST + 7 * tier->modes) * tier->padded; }

/* What eight channels will still say of their states over the next BURST steps, when nothing more comes in. */
INLINE void free_response(const float *system, const float *states, int64_t modes, float *out, int64_t padded) {
    vec totals[BURST] = {{0}};
    for (int64_t q = 0; q < modes; q++, system += 7 * LANES, states += 2 * LANES) {
        vec p = 2.0f * load(system), m = load(system + 2 * LANES);
        vec before = load(states), now = load(system) * before - load(system + LANES) * load(states + LANES);
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
        store(out + i * padded, totals[i]);
}

/* The states of eight channels after BURST inputs. */
INLINE void advance(const float *system, float *states, int64_t modes, const float *in, int64_t padded) {
    vec inputs[BURST];
#pragma GCC unroll 8
    for (int i = 0; i < BURST; i++)
        inputs[i] = load(in + i * padded);
    for (int64_t q = 0; q < modes; q++, system += 7 * LANES, states += 2 * LANES) {
        vec p = 2.0f * load(system), m = load(system + 2 * LANES);
        vec before = inputs[0], now = p * before + inputs[1];
#pragma GCC unroll 8
        for (int i = 2; i < BURST; i++) {
            vec next = p * now + (m * before + inputs[i]);
            before = now;
            now = next;
        }
        vec sum_real = now - load(system) * before, sum_imag = load(system + LANES) * before;
        vec power_real = load(system + 3 * LANES), power_imag = load(system + 4 * LANES);
        vec gain_real = load(system + 5 * LANES), gain_imag = load(system + 6 * LANES);
        vec real = load(states), imag = load(states + LANES);
        store(states, power_real * real - power_imag * imag + (gain_real * sum_real - gain_imag * sum_imag));
        store(states + LANES, power_real * imag + power_imag * real + (gain_real * sum_imag + gain_imag * sum_real));
    }
}

static void respond(const Tier *tier, const float *system, Memory memory) {
    for (int64_t at = 0, of = 0; at < tier->padded; at += LANES, of += LANES * tier->modes)
        free_response(system + 7 * of, memory.states + 2 * of, tier->modes, memory.free + at, tier->padded);
}

static void recur(const Tier *tier, const float *kernel, Memory memory, float *u) {
    int64_t padded = tier->padded, at = tier->burst;
    memcpy(memory.inputs + at * padded, u, padded * sizeof(float));
    for (int64_t c = 0; c < padded; c += LANES) {
        vec said = load(memory.free + at * padded + c);
        for (int64_t i = 0; i <= at; i++)
            said += load(kernel + (at - i) * padded + c) * load(memory.inputs + i * padded + c);
        store(u + c, gelu(said));
    }
    if (at + 1 < BURST)
        return;
    const float *system = kernel + BURST * padded;
    for (int64_t c = 0, of = 0; c < padded; c += LANES, of += LANES * tier->modes) {
        advance(system + 7 * of, memory.states + 2 * of, tier->modes, memory.inputs + c, padded);
        free_response(system + 7 * of, memory.states + 2 * of, tier->modes, memory.free + c, padded);
    }
}
