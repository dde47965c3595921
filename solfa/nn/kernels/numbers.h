/* Numbers in fewer bits, and how they are read: float16, and pairs of 16-bit integers.

   The intrinsics are shortcuts: what stands in #else computes the same bits with the vectors of GCC and Clang.  */

#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#endif

typedef uint16_t half;
typedef uint16_t half_lanes __attribute__((vector_size(2 * LANES)));

INLINE vec load_half(const half *from) {
#if defined(__AVX512F__) && LANES == 16
    return (vec)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)from));
#elif defined(__F16C__) && LANES == 8
    return (vec)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)from));
#else
    half_lanes h;
    memcpy(&h, from, sizeof h);
    ivec bits = __builtin_convertvector(h, ivec);
    /* The bits of a float 2^112 times smaller; multiplying also mends numbers below the smallest normal half. */
    vec magnitude = (vec)((bits & 0x7FFF) << 13) * 0x1p112f;
    return (vec)((ivec)magnitude | (bits & 0x8000) << 16);
#endif
}

/* To the nearest, ties to even; what is too large becomes the largest. */
INLINE void store_half(half *to, vec x) {
    x = clamp(x, -65504.0f, 65504.0f);
#if defined(__AVX512F__) && LANES == 16
    _mm256_storeu_si256((__m256i *)to, _mm512_cvtps_ph((__m512)x, _MM_FROUND_TO_NEAREST_INT));
#elif defined(__F16C__) && LANES == 8
    _mm_storeu_si128((__m128i *)to, _mm256_cvtps_ph((__m256)x, _MM_FROUND_TO_NEAREST_INT));
#else
    ivec sign = (ivec)x & (ivec){0} - 0x80000000, bits = (ivec)x ^ sign;
    /* Below the smallest normal half, adding 0.5 leaves a multiple of 2^-24 in the last bits. */
    ivec small = (ivec)((vec)bits + 0.5f) - 0x3F000000;
    ivec normal = (bits - 0x38000000 + 0xFFF + (bits >> 13 & 1)) >> 13;
    ivec is_small = bits < 0x38800000, made = (is_small & small) | (~is_small & normal);
    half_lanes h = __builtin_convertvector(made | (sign >> 16 & 0x8000), half_lanes);
    memcpy(to, &h, sizeof h);
#endif
}

/* The last eight bits of each integer. */
typedef uint8_t byte_lanes __attribute__((vector_size(LANES)));

INLINE void store_bytes(uint8_t *to, ivec x) {
#if defined(__AVX512F__) && LANES == 16
    _mm_storeu_si128((__m128i *)to, _mm512_cvtepi32_epi8((__m512i)x));
#else
    byte_lanes bytes = __builtin_convertvector(x, byte_lanes);
    memcpy(to, &bytes, sizeof bytes);
#endif
}

/* total + a b + c d in each lane, for 16-bit a, c (of `left`) and b, d (of `right`); exact. */
INLINE ivec add_pairs(ivec total, ivec left, ivec right) {
#if defined(__AVX512VNNI__) && LANES == 16
    return (ivec)_mm512_dpwssd_epi32((__m512i)total, (__m512i)left, (__m512i)right);
#elif defined(__AVX512BW__) && LANES == 16
    return total + (ivec)_mm512_madd_epi16((__m512i)left, (__m512i)right);
#elif defined(__AVX2__) && LANES == 8
    return total + (ivec)_mm256_madd_epi16((__m256i)left, (__m256i)right);
#else
    return total + (left << 16 >> 16) * (right << 16 >> 16) + (left >> 16) * (right >> 16);
#endif
}

/* The same four bytes, two or four integers, in all lanes. */
INLINE ivec broadcast_word(const void *from) {
    int32_t word;
    memcpy(&word, from, sizeof word);
    return word - (ivec){0};
}

/* Two bytes for each lane, as 16-bit integers. */
typedef int8_t byte_pairs __attribute__((vector_size(2 * LANES)));
typedef int16_t short_pairs __attribute__((vector_size(4 * LANES)));

INLINE ivec load_pairs(const int8_t *from) {
#if defined(__AVX512BW__) && LANES == 16
    return (ivec)_mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)from));
#elif defined(__AVX2__) && LANES == 8
    return (ivec)_mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)from));
#else
    byte_pairs bytes;
    memcpy(&bytes, from, sizeof bytes);
    return (ivec)__builtin_convertvector(bytes, short_pairs);
#endif
}

INLINE ivec load_words(const void *from) {
    ivec words;
    memcpy(&words, from, sizeof words);
    return words;
}

/* total + the sum of four products in each lane, of bytes from 0 to 127 (of `left`) with signed ones; exact. */
INLINE ivec add_quads(ivec total, ivec left, ivec right) {
#if defined(__AVX512VNNI__) && LANES == 16
    return (ivec)_mm512_dpbusd_epi32((__m512i)total, (__m512i)left, (__m512i)right);
#elif defined(__AVX512BW__) && LANES == 16
    __m512i pairs = _mm512_maddubs_epi16((__m512i)left, (__m512i)right);
    return total + (ivec)_mm512_madd_epi16(pairs, _mm512_set1_epi16(1));
#elif defined(__AVX2__) && LANES == 8
    __m256i pairs = _mm256_maddubs_epi16((__m256i)left, (__m256i)right);
    return total + (ivec)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
#else
    total += (left & 127) * (right << 24 >> 24) + (left >> 8 & 127) * (right << 16 >> 24);
    return total + (left >> 16 & 127) * (right << 8 >> 24) + (left >> 24 & 127) * (right >> 24);
#endif
}
