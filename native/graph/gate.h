/**
 * A lock for one writer and many readers. Readers never wait: an attempt to enter fails at once while the writer holds
 * the lock or waits for it. The writer waits until all readers have left. A reader holds the lock for at most one
 * search. Any thread.
 */
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

namespace {

class Gate {
 public:
  /** Tries to take the lock as a reader. @returns false while the writer holds the lock or waits for it */
  bool TryEnter() {
    uint32_t seen = state_.load(std::memory_order_relaxed);
    do {
      if ((seen & kShut) != 0) return false;
    } while (!state_.compare_exchange_weak(seen, seen + 1, std::memory_order_acquire, std::memory_order_relaxed));
    return true;
  }

  void Leave() { state_.fetch_sub(1, std::memory_order_release); }

  /**
   * Takes the lock as the writer, and waits until all readers have left. Only one thread may call this. It must call
   * `Open` before it calls this again.
   */
  void Shut() {
    state_.fetch_or(kShut, std::memory_order_acquire);
    for (int look = 0; state_.load(std::memory_order_acquire) != kShut; look++) {
      if (look < kYields) std::this_thread::yield();
      else std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }

  void Open() { state_.fetch_and(~kShut, std::memory_order_release); }

 private:
  static constexpr uint32_t kShut = 1u << 31;
  static constexpr int kYields = 64;
  /** The number of readers that hold the lock, and a flag that is set while the writer holds it or waits for it. */
  std::atomic<uint32_t> state_{0};
};

/** Tries to enter the gate. The destructor leaves the gate if the attempt succeeded. */
class Visit {
 public:
  explicit Visit(Gate* gate) : gate_(gate->TryEnter() ? gate : nullptr) {}
  ~Visit() {
    if (gate_ != nullptr) gate_->Leave();
  }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;

  bool is_in() const { return gate_ != nullptr; }

 private:
  Gate* gate_;
};

}  // namespace
