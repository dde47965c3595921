/* BLAKE2b (RFC 7693) without a key, of eight messages at once: the first 16 bytes of each hash, as two numbers. */

#include <stdint.h>
#include <string.h>

#define LANES 8
#define BLOCK 128
#define DIGEST_BYTES 16

typedef uint64_t Lanes __attribute__((vector_size(LANES * 8)));

static const uint64_t INITIAL[8] = {
    0x6a09e667f3bcc908u, 0xbb67ae8584caa73bu, 0x3c6ef372fe94f82bu, 0xa54ff53a5f1d36f1u,
    0x510e527fade682d1u, 0x9b05688c2b3e6c1fu, 0x1f83d9abfb41bd6bu, 0x5be0cd19137e2179u,
};

static inline Lanes rotate(Lanes x, int by) { return (x >> by) | (x << (64 - by)); }

#define MIX(a, b, c, d, x, y)         \
    do {                              \
        v[a] += v[b] + (x);           \
        v[d] = rotate(v[d] ^ v[a], 32); \
        v[c] += v[d];                 \
        v[b] = rotate(v[b] ^ v[c], 24); \
        v[a] += v[b] + (y);           \
        v[d] = rotate(v[d] ^ v[a], 16); \
        v[c] += v[d];                 \
        v[b] = rotate(v[b] ^ v[c], 63); \
    } while (0)

#define ROUND(a, b, c, d, e, f, g, h, i, j, k, l, n, o, p, q) \
    do {                                                      \
        MIX(0, 4, 8, 12, m[a], m[b]);                         \
        MIX(1, 5, 9, 13, m[c], m[d]);                         \
        MIX(2, 6, 10, 14, m[e], m[f]);                        \
        MIX(3, 7, 11, 15, m[g], m[h]);                        \
        MIX(0, 5, 10, 15, m[i], m[j]);                        \
        MIX(1, 6, 11, 12, m[k], m[l]);                        \
        MIX(2, 7, 8, 13, m[n], m[o]);                         \
        MIX(3, 4, 9, 14, m[p], m[q]);                         \
    } while (0)

/* One message: what all begin with, what this one goes on with, and how it ends. */
typedef struct {
    const uint8_t *parts[3];
    int64_t bytes[3];
} Message;

/* Copy one block of a message, with zeros after its end; return how many bytes it has up to there. */
static inline int64_t copy_block(const Message *message, int64_t first, uint8_t *block) {
    int64_t begin = 0;
    memset(block, 0, BLOCK);
    for (int part = 0; part < 3; part++) {
        const int64_t bytes = message->bytes[part];
        const int64_t from = begin > first ? begin : first;
        const int64_t to = begin + bytes < first + BLOCK ? begin + bytes : first + BLOCK;
        if (to > from) memcpy(block + (from - first), message->parts[part] + (from - begin), (size_t)(to - from));
        begin += bytes;
    }
    return begin < first + BLOCK ? begin : first + BLOCK;
}

static inline uint64_t read_number(const uint8_t *bytes) {
    uint64_t number;
    memcpy(&number, bytes, 8);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    number = __builtin_bswap64(number);
#endif
    return number;
}

static void hash_block(Lanes hash[8], const Lanes m[16], Lanes seen, Lanes is_last, Lanes is_there) {
    Lanes v[16];
    for (int i = 0; i < 8; i++) {
        v[i] = hash[i];
        v[i + 8] = (Lanes){0} + INITIAL[i];
    }
    v[12] ^= seen;
    v[14] ^= is_last;
    ROUND(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    ROUND(14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3);
    ROUND(11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4);
    ROUND(7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8);
    ROUND(9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13);
    ROUND(2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9);
    ROUND(12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11);
    ROUND(13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10);
    ROUND(6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5);
    ROUND(10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0);
    ROUND(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    ROUND(14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3);
    for (int i = 0; i < 8; i++) hash[i] ^= (v[i] ^ v[i + 8]) & is_there;
}

static inline void hash_messages(const Message messages[LANES], uint64_t digests[LANES][2]) {
    Lanes hash[8], m[16];
    int64_t totals[LANES], longest = 0;
    for (int lane = 0; lane < LANES; lane++) {
        totals[lane] = messages[lane].bytes[0] + messages[lane].bytes[1] + messages[lane].bytes[2];
        longest = totals[lane] > longest ? totals[lane] : longest;
    }
    for (int i = 0; i < 8; i++) hash[i] = (Lanes){0} + INITIAL[i];
    hash[0] ^= (uint64_t)(0x01010000u ^ DIGEST_BYTES);
    for (int64_t first = 0; first == 0 || first < longest; first += BLOCK) {
        Lanes seen = {0}, is_last = {0}, is_there = {0};
        for (int lane = 0; lane < LANES; lane++) {
            uint8_t block[BLOCK];
            seen[lane] = (uint64_t)copy_block(&messages[lane], first, block);
            is_last[lane] = totals[lane] <= first + BLOCK ? ~(uint64_t)0 : 0;
            is_there[lane] = first == 0 || first < totals[lane] ? ~(uint64_t)0 : 0;
            for (int i = 0; i < 16; i++) m[i][lane] = read_number(block + 8 * i);
        }
        hash_block(hash, m, seen, is_last, is_there);
    }
    for (int lane = 0; lane < LANES; lane++) {
        digests[lane][0] = hash[0][lane];
        digests[lane][1] = hash[1][lane];
    }
}
