// One lambda per alternative, for std::visit.
#pragma once

namespace quire {

template <class... Fns>
struct Overloaded : Fns... {
  using Fns::operator()...;
};
template <class... Fns>
Overloaded(Fns...) -> Overloaded<Fns...>;

}  // namespace quire
