/**
 * Digests of the pages of a file. They show which pages differ from an earlier state of the file, and give a digest of
 * the whole file. Command line.
 */
import { createHash, hash } from 'node:crypto';

/** Length of a page's digest: SHA-256, cut to 128 bits. */
const PAGE_DIGEST_BYTES = 16;

/** The digest of each page of a file; zeros for a page of zeros. */
export class PageTable {
  readonly page_bytes: number;
  #digests: Buffer;
  #pages = 0;

  constructor(pageBytes: number, pages: number) {
    this.page_bytes = pageBytes;
    this.#digests = Buffer.alloc(pages * PAGE_DIGEST_BYTES);
    this.#pages = pages;
  }

  get pages(): number {
    return this.#pages;
  }

  /** Notes the content of a page. @param content at most one page; the rest of the page is zeros */
  note(page: number, content: Uint8Array): void {
    if (page >= this.#pages) this.#grow(page + 1);
    const at = page * PAGE_DIGEST_BYTES;
    if (isZero(content)) this.#digests.fill(0, at, at + PAGE_DIGEST_BYTES);
    else this.#digests.set(digestPage(content, this.page_bytes), at);
  }

  isZeroPage(page: number): boolean {
    return isZero(this.#digestOf(page));
  }

  /** Whether the page is the same in both files. Pages beyond the end of a file are zeros. */
  hasSame(page: number, other: PageTable): boolean {
    return this.#digestOf(page).equals(other.#digestOf(page));
  }

  /** Computes a digest of the file. @param bytes the file's length */
  digest(bytes: number): string {
    return createHash('sha256')
      .update(`${this.page_bytes} ${bytes}\n`)
      .update(this.#digests.subarray(0, this.#pages * PAGE_DIGEST_BYTES))
      .digest('hex');
  }

  #digestOf(page: number): Buffer {
    return page < this.#pages
      ? this.#digests.subarray(page * PAGE_DIGEST_BYTES, (page + 1) * PAGE_DIGEST_BYTES)
      : NO_DIGEST;
  }

  #grow(pages: number): void {
    const bytes = pages * PAGE_DIGEST_BYTES;
    if (bytes > this.#digests.length) {
      const larger = Buffer.alloc(Math.max(bytes, 2 * this.#digests.length));
      this.#digests.copy(larger);
      this.#digests = larger;
    }
    this.#pages = pages;
  }
}

const NO_DIGEST = Buffer.alloc(PAGE_DIGEST_BYTES);
const ZEROS = Buffer.alloc(65_536);

function isZero(bytes: Uint8Array): boolean {
  return ZEROS.compare(bytes, 0, bytes.length, 0, bytes.length) === 0;
}

function digestPage(content: Uint8Array, pageBytes: number): Buffer {
  let whole = content;
  if (content.length < pageBytes) {
    whole = Buffer.alloc(pageBytes);
    (whole as Buffer).set(content);
  }
  return (hash('sha256', whole, 'buffer') as Buffer).subarray(0, PAGE_DIGEST_BYTES);
}
