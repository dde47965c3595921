/* State-space layers as recurrences, forward and backward, in float and double: see recurrence.h. */

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))
#include "team.h"

/* As many bytes as a register has. What four modes need forward (two, with fewer registers) stays in registers; of two
   modes backward, some of the sums may not, which costs less than waiting for one mode's last step. */
#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#define FORWARD_MODES 4
#elif defined(__AVX__)
#define VECTOR_BYTES 32
#define FORWARD_MODES 2
#else
#define VECTOR_BYTES 16
#define FORWARD_MODES 2
#endif
#define BACKWARD_MODES 2
#define PADDED(modes) (((modes) + FORWARD_MODES - 1) / FORWARD_MODES * FORWARD_MODES)
#ifndef BLOCK
#define BLOCK 32
#endif

typedef struct {
    int64_t clips, steps, channels, modes, blocks;
    const void *inputs, *decay, *drift, *weights, *skip;
    const void *gradient; /* of the outputs; NULL for the forward pass */
    void *outputs;        /* or the gradient of the inputs */
    void *states;         /* before each block; NULL if nobody will ask for gradients */
    void *of_modes, *of_skip;
    void *memory;
} Job;

int64_t block_steps(void) { return BLOCK; }

/* What a thread works in. */
int64_t memory_bytes(int64_t modes) {
    return (12 * PADDED(modes) + (3 + 2 * FORWARD_MODES) * BLOCK) * VECTOR_BYTES;
}

/* What a clip's states before all blocks take. */
int64_t states_bytes(int64_t channels, int64_t modes, int64_t blocks, int64_t real_bytes) {
    const int64_t lanes = VECTOR_BYTES / real_bytes;
    return (channels + lanes - 1) / lanes * blocks * 2 * PADDED(modes) * VECTOR_BYTES;
}

#define REAL float
#define NAME(name) name##_float
#include "recurrence.h"
#undef REAL
#undef NAME
#define REAL double
#define NAME(name) name##_double
#include "recurrence.h"

void run_recurrence(Job *job, int64_t real_bytes, int64_t threads) {
    run_team(real_bytes == sizeof(float) ? share_out_float : share_out_double, job, threads);
}
