/**
 * Replaces system functions for one library of the process, by changing the addresses in the table through which that
 * library calls external functions (its global offset table). Works only on Linux; on other systems no library is
 * found.
 */
#pragma once

#include <cstddef>
#include <initializer_list>

#ifdef __linux__
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#endif

namespace interposition {

/** The name of a function that the library calls or passes on, and the replacement for that function. */
struct Replacement {
  const char* name;
  void* function;
  /** Receives the original address; nullptr if it is not needed. */
  void** original = nullptr;
};

#ifdef __linux__

#if defined(__x86_64__)
inline constexpr uint32_t kJumpSlot = R_X86_64_JUMP_SLOT;
inline constexpr uint32_t kDataSlot = R_X86_64_GLOB_DAT;
#elif defined(__aarch64__)
inline constexpr uint32_t kJumpSlot = R_AARCH64_JUMP_SLOT;
inline constexpr uint32_t kDataSlot = R_AARCH64_GLOB_DAT;
#else
inline constexpr uint32_t kJumpSlot = UINT32_MAX;
inline constexpr uint32_t kDataSlot = UINT32_MAX;
#endif

/** The dynamic linker's data about a library. */
class Library {
 public:
  explicit Library(const dl_phdr_info& info) : base_(info.dlpi_addr) {
    for (int at = 0; at < info.dlpi_phnum; at++) {
      const auto& header = info.dlpi_phdr[at];
      if (header.p_type == PT_DYNAMIC) ReadDynamic(reinterpret_cast<const ElfW(Dyn)*>(base_ + header.p_vaddr));
      if (header.p_type != PT_GNU_RELRO) continue;
      sealed_from_ = base_ + header.p_vaddr;
      sealed_to_ = sealed_from_ + header.p_memsz;
    }
  }

  /**
   * Calls `take` with each slot that holds the function's address.
   * @returns number of these slots
   */
  template <typename Take>
  size_t ForSlots(const char* name, Take take) const {
    return ForSlotsIn(jumps_, jumps_bytes_, name, take) + ForSlotsIn(others_, others_bytes_, name, take);
  }

  /**
   * Writes a function's address into a slot.
   * @returns false if the slot is not writable
   */
  bool Write(void** slot, void* function) const {
    if (__atomic_load_n(slot, __ATOMIC_ACQUIRE) == function) return true;
    const auto address = reinterpret_cast<uintptr_t>(slot);
    const bool is_sealed = address >= sealed_from_ && address < sealed_to_;
    const auto page_bytes = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    void* const page = reinterpret_cast<void*>(address / page_bytes * page_bytes);
    if (is_sealed && mprotect(page, page_bytes, PROT_READ | PROT_WRITE) != 0) return false;
    __atomic_store_n(slot, function, __ATOMIC_RELEASE);
    if (is_sealed) mprotect(page, page_bytes, PROT_READ);
    return true;
  }

 private:
  void ReadDynamic(const ElfW(Dyn) * entry) {
    for (; entry->d_tag != DT_NULL; entry++) {
      switch (entry->d_tag) {
        case DT_SYMTAB:
          symbols_ = At<ElfW(Sym)>(entry->d_un.d_ptr);
          break;
        case DT_STRTAB:
          texts_ = At<char>(entry->d_un.d_ptr);
          break;
        case DT_JMPREL:
          jumps_ = At<ElfW(Rela)>(entry->d_un.d_ptr);
          break;
        case DT_PLTRELSZ:
          jumps_bytes_ = entry->d_un.d_val;
          break;
        case DT_PLTREL:
          // Both supported architectures use relocations with addends (RELA).
          has_addends_ = entry->d_un.d_val == DT_RELA;
          break;
        case DT_RELA:
          others_ = At<ElfW(Rela)>(entry->d_un.d_ptr);
          break;
        case DT_RELASZ:
          others_bytes_ = entry->d_un.d_val;
          break;
        default:
          break;
      }
    }
  }

  /**
   * Converts an entry to a pointer. glibc replaces the file's offsets by addresses when it loads a library; musl does
   * not.
   */
  template <typename T>
  const T* At(uintptr_t place) const {
    return reinterpret_cast<const T*>(place >= base_ ? place : base_ + place);
  }

  template <typename Take>
  size_t ForSlotsIn(const ElfW(Rela) * relocations, size_t bytes, const char* name, Take take) const {
    if (relocations == nullptr || symbols_ == nullptr || texts_ == nullptr || !has_addends_) return 0;
    size_t found = 0;
    for (size_t at = 0; at < bytes / sizeof(*relocations); at++) {
      const auto type = static_cast<uint32_t>(ELF64_R_TYPE(relocations[at].r_info));
      if (type != kJumpSlot && type != kDataSlot) continue;
      const auto& symbol = symbols_[ELF64_R_SYM(relocations[at].r_info)];
      if (std::strcmp(texts_ + symbol.st_name, name) != 0) continue;
      if (take(reinterpret_cast<void**>(base_ + relocations[at].r_offset))) found++;
    }
    return found;
  }

  const uintptr_t base_;
  uintptr_t sealed_from_ = 0;
  uintptr_t sealed_to_ = 0;
  const ElfW(Sym) * symbols_ = nullptr;
  const char* texts_ = nullptr;
  const ElfW(Rela) * jumps_ = nullptr;
  size_t jumps_bytes_ = 0;
  const ElfW(Rela) * others_ = nullptr;
  size_t others_bytes_ = 0;
  bool has_addends_ = false;
};

struct Search {
  const char* mark;
  std::initializer_list<Replacement> replacements;
  bool is_done;
};

inline int Visit(dl_phdr_info* info, size_t, void* data) {
  auto* const search = static_cast<Search*>(data);
  const Library library(*info);
  if (library.ForSlots(search->mark, [](void**) { return true; }) == 0) return 0;
  // Either all functions are replaced or none. If only some were replaced, they would get sockets that the others have
  // not registered.
  for (const auto& replacement : search->replacements)
    if (library.ForSlots(replacement.name, [](void**) { return true; }) == 0) return 0;
  bool is_written = true;
  for (const auto& replacement : search->replacements)
    library.ForSlots(replacement.name, [&](void** slot) {
      void* const there = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
      if (replacement.original != nullptr && there != replacement.function) *replacement.original = there;
      is_written = library.Write(slot, replacement.function) && is_written;
      return true;
    });
  search->is_done = is_written;
  return 0;
}

/**
 * Replaces functions for the library.
 * @param mark name of a function that only this library calls through its table
 * @returns false if there is no such library, or if it does not call all of the functions
 */
inline bool Replace(const char* mark, std::initializer_list<Replacement> replacements) {
  Search search{mark, replacements, false};
  dl_iterate_phdr(Visit, &search);
  return search.is_done;
}

struct Owner {
  const char* mark;
  const char* path;
};

inline int VisitForPath(dl_phdr_info* info, size_t, void* data) {
  auto* const owner = static_cast<Owner*>(data);
  if (Library(*info).ForSlots(owner->mark, [](void**) { return true; }) > 0) owner->path = info->dlpi_name;
  return 0;
}

/**
 * Finds a function that the library with this mark exports.
 * @returns the function; nullptr if it does not exist
 */
inline void* FindFunction(const char* mark, const char* name) {
  Owner owner{mark, nullptr};
  dl_iterate_phdr(VisitForPath, &owner);
  if (owner.path == nullptr) return nullptr;
  void* const library = dlopen(owner.path, RTLD_LAZY | RTLD_NOLOAD);
  return library == nullptr ? nullptr : dlsym(library, name);
}

#else

inline bool Replace(const char*, std::initializer_list<Replacement>) { return false; }

#endif

}  // namespace interposition
