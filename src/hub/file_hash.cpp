#include "hub/file_hash.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "base/check.h"
#include "hub/file_descriptor.h"

namespace quire {
namespace {

constexpr std::size_t kReadBytes = 1 << 20;

struct FreeDigest {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};

}  // namespace

Result<std::string> hash_file(const std::string& path, HashKind kind) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status = {};
  if (!file.is_open() || fstat(file.get(), &status) != 0)
    return make_error(ErrorCode::kBadFile, "{}: cannot read it: {}", path, std::strerror(errno));
  const std::unique_ptr<EVP_MD_CTX, FreeDigest> digest(EVP_MD_CTX_new());
  const EVP_MD* algorithm = kind == HashKind::kSha256 ? EVP_sha256() : EVP_sha1();
  QUIRE_CHECK(digest && EVP_DigestInit_ex(digest.get(), algorithm, nullptr) == 1,
              "OpenSSL has no digest");
  if (kind == HashKind::kGitBlob) {
    std::string head = fmt::format("blob {}", status.st_size);
    head.push_back('\0');
    EVP_DigestUpdate(digest.get(), head.data(), head.size());
  }
  std::vector<char> chunk(kReadBytes);
  while (true) {
    const ssize_t got = read(file.get(), chunk.data(), chunk.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      return make_error(ErrorCode::kBadFile, "{}: cannot read it: {}", path, std::strerror(errno));
    if (got == 0) break;
    EVP_DigestUpdate(digest.get(), chunk.data(), static_cast<std::size_t>(got));
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
  unsigned int length = 0;
  EVP_DigestFinal_ex(digest.get(), bytes.data(), &length);
  std::string hex;
  for (unsigned int i = 0; i < length; ++i) hex += fmt::format("{:02x}", bytes[i]);
  return hex;
}

}  // namespace quire
