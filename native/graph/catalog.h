/**
 * Lists the shared indexes of the process, so that threads find those of other threads. A catalog contains the shared
 * indexes of a store by name. The registry contains the catalogs of the process by key. A catalog is closed when the
 * thread that opened it ends; running searches still complete. Any thread.
 */
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "gate.h"
#include "shared-index.h"

namespace {

struct Catalog {
  std::string key;
  /** Identifies the indexed vectors. Empty until other threads may search the indexes. */
  std::string vectors_id;
  std::unordered_map<std::string, std::shared_ptr<SharedIndex>> indexes;
  /** Names of indexes that are searched together. */
  std::unordered_map<std::string, std::vector<std::string>> groups;
};

/** The catalogs of the process. Readers never wait. */
class Registry {
 public:
  /** Replaces an earlier catalog with the same key. */
  void Open(std::shared_ptr<Catalog> catalog) {
    Change([&] {
      const std::string key = catalog->key;
      catalogs_[key] = std::move(catalog);
    });
  }

  void Close(const std::shared_ptr<Catalog>& catalog) {
    Change([&] {
      catalog->vectors_id.clear();
      const auto found = catalogs_.find(catalog->key);
      if (found != catalogs_.end() && found->second == catalog) catalogs_.erase(found);
    });
  }

  /** Runs `work`, which may change catalogs. No reader reads a catalog meanwhile. */
  template <typename Work>
  void Change(Work work) {
    const std::lock_guard<std::mutex> alone(changing_);
    gate_.Shut();
    const Opening opening(&gate_);
    work();
  }

  /** Calls `look` with the catalog. @returns false if the catalog does not exist, is not served, or is being changed */
  template <typename Look>
  bool Read(const std::string& key, const std::string& vectors_id, Look look) {
    const Visit visit(&gate_);
    if (!visit.is_in()) return false;
    const auto found = catalogs_.find(key);
    if (found == catalogs_.end() || vectors_id.empty() || found->second->vectors_id != vectors_id) return false;
    look(static_cast<const Catalog&>(*found->second));
    return true;
  }

 private:
  /** Opens the gate when it is destroyed, even after an exception. */
  class Opening {
   public:
    explicit Opening(Gate* gate) : gate_(gate) {}
    ~Opening() { gate_->Open(); }
    Opening(const Opening&) = delete;
    Opening& operator=(const Opening&) = delete;

   private:
    Gate* gate_;
  };

  std::mutex changing_;
  Gate gate_;
  std::unordered_map<std::string, std::shared_ptr<Catalog>> catalogs_;
};

/** Never destroyed, because a thread may use it while the process exits. Closing a catalog removes its entry. */
inline Registry& TheRegistry() {
  static Registry& registry = *new Registry();
  return registry;
}

}  // namespace
