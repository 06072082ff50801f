// How long answers are: what the engine has learnt from those that ended. Engine thread.
//
// An answer that was cut (by max_tokens, an abort) tells only that it would have been longer, so
// this is an estimate of survival (Kaplan and Meier, 1958) over the last answers, with a prior of a
// few whose tail is heavy (Pareto): while little is known, an answer is taken to go on for about as
// long as it has, and at least for kUsualTokens.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace quire {

class AnswerLengths {
 public:
  AnswerLengths();
  // One that had num_tokens when it ended by itself, or was cut.
  void record(std::int32_t num_tokens, bool cut);
  // Share of answers with more than num_tokens tokens; falls from 1 towards 0, never reaches it.
  double share_longer(std::int32_t num_tokens) const;

  static constexpr std::size_t kRemembered = 1024;  // answers
  static constexpr double kUsualTokens = 128, kPriorAnswers = 4;

 private:
  // Eight buckets per doubling.
  static constexpr std::size_t kPerDoubling = 8, kBuckets = 31 * kPerDoubling;
  static std::size_t bucket_of(std::int32_t num_tokens);
  static double bucket_begin(std::size_t bucket);

  struct Answer {
    std::int32_t num_tokens;
    bool cut;
  };
  void count(const Answer& answer, int direction);
  void estimate();

  std::vector<Answer> recent_;  // a ring
  std::size_t next_ = 0;
  // By bucket: answers of that length, and of these the ones that ended by themselves.
  std::array<std::int32_t, kBuckets> counts_{}, ends_{};
  std::array<double, kBuckets + 1> survive_{};  // share of answers at least as long as its begin
};

}  // namespace quire
