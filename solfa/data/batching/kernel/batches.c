/* Fill a batch from memory-mapped clips, and draw where its crops begin.

   Clips of a shuffled epoch lie anywhere in files larger than the cache, so what costs is waiting for memory: while one
   segment is copied, the next is asked for. */

#include <stdint.h>
#include <string.h>

#include "blake2b.h"

#define AHEAD 512  /* bytes that are copied between two requests for the same part of the next segment */
#define LINE 64

enum { UINT16, UINT32, FLOAT16, FLOAT32 };

static inline uint32_t widen_half(uint16_t half) {
    const uint32_t exponents = 0x7c00u << 13;
    uint32_t bits = (half & 0x7fffu) << 13, exponent = bits & exponents;
    bits += (127u - 15u) << 23;
    if (exponent == exponents) bits += (128u - 16u) << 23; /* infinite, or not a number */
    if (exponent == 0) {                                   /* zero, or too small for a leading one */
        const uint32_t least = 113u << 23;
        float value, offset;
        bits += 1u << 23;
        memcpy(&value, &bits, 4);
        memcpy(&offset, &least, 4);
        value -= offset;
        memcpy(&bits, &value, 4);
    }
    return bits | (uint32_t)(half & 0x8000u) << 16;
}

static void widen(const void *from, void *to, int64_t count, int kind) {
    if (kind == UINT16) {
        const uint16_t *restrict in = from;
        int64_t *restrict out = to;
        for (int64_t i = 0; i < count; i++) out[i] = in[i];
    } else if (kind == UINT32) {
        const uint32_t *restrict in = from;
        int64_t *restrict out = to;
        for (int64_t i = 0; i < count; i++) out[i] = in[i];
    } else if (kind == FLOAT16) {
        const uint16_t *restrict in = from;
        uint32_t *restrict out = to;
        for (int64_t i = 0; i < count; i++) out[i] = widen_half(in[i]);
    } else {
        memcpy(to, from, (size_t)count * 4);
    }
}

static void number(int64_t *numbers, int64_t count, int64_t value) {
    for (int64_t i = 0; i < count; i++) numbers[i] = value;
}

/* Copy segments to their places in `out`, [num_rows, num_columns, width], with zeros between them, and write the number
   of each within its row to `numbers`, [num_rows, num_columns], with -1 between them. Segments are ordered by place.
   Return how many fit their clips and places: all of them, unless something is wrong. */
int64_t solfa_fill_batch(
    int64_t count, const int64_t *arrays, const int64_t *clip_frames, const int64_t *starts, const int64_t *num_frames,
    const int64_t *rows, const int64_t *columns, int64_t num_rows, int64_t num_columns, int64_t width, int64_t kind,
    void *out, int64_t *numbers
) {
    const int64_t size = kind == UINT16 || kind == FLOAT16 ? 2 : 4, wide = kind == UINT16 || kind == UINT32 ? 8 : 4;
    const int64_t total = num_rows * num_columns, step = AHEAD / size;
    int64_t end = 0, row = -1, in_row = 0;
    for (int64_t g = 0; g < count; g++) {
        const int64_t frames = num_frames[g], begin = rows[g] * num_columns + columns[g];
        if (frames < 0 || starts[g] < 0 || starts[g] > clip_frames[g] - frames) return g;
        if (rows[g] < 0 || columns[g] < 0 || begin < end || frames > total - begin) return g;
        memset((char *)out + end * width * wide, 0, (size_t)((begin - end) * width * wide));
        number(numbers + end, begin - end, -1);
        in_row = rows[g] == row ? in_row + 1 : 0;
        row = rows[g];
        number(numbers + begin, frames, in_row);
        const char *from = (const char *)(intptr_t)arrays[g] + starts[g] * width * size, *next = 0;
        int64_t next_bytes = 0;
        if (g + 1 < count && starts[g + 1] >= 0 && starts[g + 1] < clip_frames[g + 1]) {
            next = (const char *)(intptr_t)arrays[g + 1] + starts[g + 1] * width * size;
            next_bytes = num_frames[g + 1] * width * size;
        }
        char *to = (char *)out + begin * width * wide;
        for (int64_t i = 0; i < frames * width; i += step) {
            const int64_t here = frames * width - i < step ? frames * width - i : step;
            const int64_t wanted = next_bytes - i * size < AHEAD ? next_bytes - i * size : AHEAD;
            for (int64_t line = 0; line < wanted; line += LINE) __builtin_prefetch(next + i * size + line);
            widen(from + i * size, to + i * wide, here, (int)kind);
        }
        end = begin + frames;
    }
    memset((char *)out + end * width * wide, 0, (size_t)((total - end) * width * wide));
    number(numbers + end, total - end, -1);
    return count;
}

/* Write how many characters an id has, and a colon, to the end of `text`; return how many bytes that takes. */
static int write_length(const uint8_t *id, int64_t bytes, uint8_t text[24]) {
    int64_t length = 0;
    int first = 24;
    for (int64_t i = 0; i < bytes; i++) length += (id[i] & 0xc0) != 0x80;
    text[--first] = ':';
    do text[--first] = (uint8_t)('0' + length % 10);
    while (length /= 10);
    return 24 - first;
}

/* Add to each of `starts` a number from 0 to its slack inclusive, drawn from a hash of `prefix` and the clip's id, as
   `crop_start` of stable_random.py draws it. An id is UTF-8; its length is that of the text. */
void solfa_draw_starts(
    int64_t count, const int64_t *ids, const int64_t *id_bytes, const int64_t *slacks, const uint8_t *prefix,
    int64_t prefix_bytes, int64_t *starts
) {
    for (int64_t g = 0; g < count; g++) __builtin_prefetch((const void *)(intptr_t)ids[g]);
    for (int64_t first = 0; first < count; first += LANES) {
        Message messages[LANES];
        uint8_t texts[LANES][24];
        uint64_t digests[LANES][2];
        for (int lane = 0; lane < LANES; lane++) {
            const int64_t g = first + lane < count ? first + lane : count - 1;
            const uint8_t *id = (const uint8_t *)(intptr_t)ids[g];
            const int length = write_length(id, id_bytes[g], texts[lane]);
            messages[lane] = (Message){{prefix, texts[lane] + sizeof texts[lane] - length, id},
                                       {prefix_bytes, length, id_bytes[g]}};
        }
        hash_messages(messages, digests);
        for (int64_t g = first; g < count && g < first + LANES; g++)
            starts[g] += (int64_t)((unsigned __int128)digests[g - first][1] * ((uint64_t)slacks[g] + 1) >> 64);
    }
}
