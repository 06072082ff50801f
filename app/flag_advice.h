// What to say about a flag that the command line does not take: vLLM's flags that are known but not
// built are refused by name with a hint, a typing error gets the nearest flag.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace quire {

// flag: as typed, e.g. "--tensor-paralel-size=2"; taken: the flags of this command. One line.
std::string flag_advice(std::string_view flag, const std::vector<std::string>& taken);

}  // namespace quire
