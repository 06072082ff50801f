// For tests that repeat at random or play long sequences: a sanitizer makes them ten times as slow,
// and finds what it can find in a tenth of the repeats. The release build does them all.
#pragma once

namespace quire {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif
#else
inline constexpr bool kSanitized = false;
#endif

// How often to repeat: `full` times, a tenth of that under a sanitizer.
constexpr int repeats(int full) { return kSanitized ? (full + 9) / 10 : full; }

}  // namespace quire
