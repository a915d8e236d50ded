/**
 * Images and documents, each stored once. Finds files of 1 KiB or more in bodies: base64 text where a body can have
 * a file, or a whole body of a binary media type. Stores their bytes in `<db>.files/<sha256>`, and replaces them in the
 * body by a placeholder, from which the body can be restored byte for byte. Runs in the capture process (find, save)
 * and in readers (restore).
 * A placeholder is `NUL @svc-file: <variant> <sha256 in hex> NUL`. Placeholders need no escaping: a body that itself
 * contains the beginning of a placeholder keeps its files, and the exchange's record says whether its bodies have
 * placeholders.
 * With a data key, the file is encrypted and its name is derived from the digest and the key, so the name reveals
 * nothing about the content. The placeholder does not change, because it is inside encrypted data.
 */
import { hash } from 'node:crypto';
import { readFileSync, renameSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { byteEngine, packNeedles } from '../../../native/byte-engine.ts';
import { ATTACHMENT_BYTES_MIN } from '../../limits.ts';
import type { DataKey, Sealer } from '../../std/data-key.ts';
import { makeFolder } from '../../std/folder.ts';
import { leaveRest } from '../../std/own-memory.ts';
import { RecentMap } from '../../std/recent-map.ts';
import { syncPathAside } from '../../std/synced-path.ts';

/** Maximum number of saved files that are remembered. A save of such a file need not check the disk. */
const MAX_KNOWN = 65_536;
/** A file's modification time is updated at most this often. */
const TOUCH_EVERY_MS = 3_600_000;
/** Minimum length of base64 that can be an attachment. */
export const MIN_BASE64_CHARS = Math.ceil((ATTACHMENT_BYTES_MIN * 4) / 3);

const PLACEHOLDER_HEAD = '\0@svc-file:';
/** The beginning of every placeholder. */
export const PLACEHOLDER_HEAD_BYTES = Buffer.from(PLACEHOLDER_HEAD, 'latin1');
const PLACEHOLDER_NEEDLE = packNeedles([PLACEHOLDER_HEAD_BYTES]);
const PLACEHOLDER_BYTES = PLACEHOLDER_HEAD.length + 1 + 64 + 1;

/**
 * How the body encodes the bytes: `s` base64, `n` base64 without padding, `u` base64url with padding, `v` base64url
 * without padding, `e` base64 with `/` written `\/` as some JSON writers do, `r` raw bytes.
 */
type Variant = 's' | 'n' | 'u' | 'v' | 'e' | 'r';

/** An attachment found in a body: the range that the placeholder replaces, and the decoded bytes. */
export interface FoundAttachment {
  start: number;
  end: number;
  placeholder: Buffer;
  sha256: string;
  content: Buffer;
}

/** 1 for each byte that occurs in base64, in base64url or in an escaped slash. */
const BASE64_BYTE = new Uint8Array(256);
for (const char of 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=-_\\') {
  BASE64_BYTE[char.charCodeAt(0)] = 1;
}

/** The JSON key (or data URI prefix) before a value that may be an attachment. */
const MEMBER_BEFORE =
  /(?:"(?:data|bytes|b64_json|base64|file_data|image|image_base64|partial_image_b64|content_bytes)\\?"\s*:\s*\\?"|;base64,|"images\\?"\s*:\s*\[\s*\\?"|"\s*,\s*\\?")$/;
/** Base64 values that are neither images nor documents. */
const NOT_A_FILE = /redacted_thinking|encrypted_content|"signature/;

/** Whether a body may contain placeholders that its sender wrote. */
export function mayHoldPlaceholder(body: Buffer): boolean {
  return byteEngine.findAnyNeedle(body, 0, body.length, PLACEHOLDER_NEEDLE) >= 0;
}

/** Finds the base64 attachments of a text body between `from` (inclusive) and `to` (exclusive). */
export function findAttachments(body: Buffer, from = 0, to = body.length): FoundAttachment[] {
  const found: FoundAttachment[] = [];
  let at = byteEngine.findLongBase64(body, from, to, MIN_BASE64_CHARS);
  while (at >= 0) {
    let end = at + MIN_BASE64_CHARS;
    while (end < to && BASE64_BYTE[body[end]!] === 1) end++;
    const attachment = judgeRun(body, at, end);
    if (attachment !== null) found.push(attachment);
    at = end >= to ? -1 : byteEngine.findLongBase64(body, end + 1, to, MIN_BASE64_CHARS);
  }
  return found;
}

function judgeRun(body: Buffer, start: number, runEnd: number): FoundAttachment | null {
  // In JSON inside JSON the closing quote is escaped, and its backslash does not belong to the text.
  const end = body[runEnd - 1] === 0x5c ? runEnd - 1 : runEnd;
  const after = body[runEnd];
  if (after !== 0x22 && after !== 0x29 && after !== 0x27 && after !== 0x3e) return null;
  const before = body.toString('latin1', Math.max(0, start - 96), start);
  if (!MEMBER_BEFORE.test(before) || NOT_A_FILE.test(before)) return null;
  const text = body.toString('latin1', start, end);
  const read = readBase64(text);
  if (read === null || read.content.length < ATTACHMENT_BYTES_MIN) return null;
  return makeAttachment(start, end, read.variant, read.content);
}

/** Decodes the text, and finds the encoding that reproduces it exactly; null if no encoding does. */
function readBase64(text: string): { variant: Variant; content: Buffer } | null {
  if (text.includes('\\')) {
    const plain = text.replaceAll('\\/', '/');
    if (plain.replaceAll('/', '\\/') !== text) return null;
    const content = Buffer.from(plain, 'base64');
    return content.toString('base64') === plain ? { variant: 'e', content } : null;
  }
  const content = Buffer.from(text, 'base64');
  const standard = content.toString('base64');
  if (standard === text) return { variant: 's', content };
  if (standard.replace(/=+$/, '') === text) return { variant: 'n', content };
  const url = content.toString('base64url');
  if (url === text) return { variant: 'v', content };
  return url.padEnd(Math.ceil(url.length / 4) * 4, '=') === text ? { variant: 'u', content } : null;
}

function makeAttachment(start: number, end: number, variant: Variant, content: Buffer): FoundAttachment {
  const sha256 = hash('sha256', content, 'hex');
  // Copied, because the edits of a body keep it, and a slice would keep Node's whole buffer pool in memory.
  const placeholder = leaveRest(Buffer.from(`${PLACEHOLDER_HEAD}${variant}${sha256}\0`, 'latin1'));
  return { start, end, placeholder, sha256, content };
}

/** Media types whose whole body is a file: an image, a recording, a font, a document or an archive. */
const BINARY_TYPE =
  /^\s*(?:image\/(?!svg)|audio\/|video\/|font\/|application\/(?:pdf|zip|gzip|x-tar|octet-stream|vnd\.(?:openxmlformats|ms-|oasis)))/i;

/** Whether the media type is that of a file (BINARY_TYPE), and the body is large enough to be stored separately. */
export function isBinary(body: Buffer, contentType: string | null): boolean {
  return contentType !== null && body.length >= ATTACHMENT_BYTES_MIN && BINARY_TYPE.test(contentType);
}

/** Makes one attachment of the whole body if its media type says that it is binary; otherwise returns null. */
export function wrapBinaryBody(body: Buffer, contentType: string | null): FoundAttachment | null {
  return !isBinary(body, contentType) ? null : makeAttachment(0, body.length, 'r', body);
}

/** The purpose under which the data key derives the key that encrypts and names attachments. */
const PURPOSE = 'attachment';

/** Returns the file name of an attachment. @param key null: files are not encrypted */
export function nameAttachment(sha256: string, key: DataKey | null): string {
  return key === null ? sha256 : key.nameOf(PURPOSE, sha256);
}

/** Encrypts the content of an attachment for the file with that name. */
export function sealAttachment(name: string, content: Uint8Array, key: DataKey): Buffer {
  return key.sealer(PURPOSE).seal(content, Buffer.from(name));
}

/** Decrypts the content of the file with that name. @throws SealError */
export function openAttachment(name: string, sealed: Uint8Array, key: DataKey): Buffer {
  return key.sealer(PURPOSE).open(sealed, Buffer.from(name));
}

/** Offset of the digest in a placeholder, after the head and the variant. */
const DIGEST_AT = PLACEHOLDER_HEAD_BYTES.length + 1;
const DIGEST_CHARACTERS = 64;

/** Yields the digests of the attachments to which a stored body refers. */
export function* listDigests(body: Buffer): Iterable<string> {
  for (
    let at = body.indexOf(PLACEHOLDER_HEAD_BYTES);
    at >= 0;
    at = body.indexOf(PLACEHOLDER_HEAD_BYTES, at + 1)
  )
    yield body.toString('latin1', at + DIGEST_AT, at + DIGEST_AT + DIGEST_CHARACTERS);
}

/** Writes the files of attachments beside a capture database. */
export class AttachmentStore {
  readonly #folder: string;
  /** Files that were written, or whose times were updated, since the last sync. */
  #unsynced: { name: string; sha256: string }[] = [];
  /**
   * Whether a sync has failed. The kernel drops pages that it could not write, and the next sync succeeds without them.
   * So files are then written again instead of synced.
   */
  #isInDoubt = false;
  #made = false;
  /**
   * Digests of attachments known to be on the disk, and when their files' times were last updated. Bounded: the oldest
   * are dropped first.
   */
  readonly #known = new RecentMap<string, number>(MAX_KNOWN);

  readonly #key: DataKey | null;
  readonly #sealer: Sealer | null;

  /**
   * @param key null: the files are not encrypted
   */
  constructor(folder: string, key: DataKey | null = null) {
    this.#folder = folder;
    this.#key = key;
    this.#sealer = key?.sealer(PURPOSE) ?? null;
  }

  /**
   * Saves the bytes under their name if the file does not exist. If it exists, updates its modification time, at most
   * an hour late, to show that it is still in use (attachment-ages.ts). If that fails, writes the file again. The file
   * is written under another name and renamed, so it is never incomplete.
   * @throws the file system's error; no incomplete file remains
   */
  save(sha256: string, content: Buffer): void {
    const nowMs = Date.now();
    if (Math.abs(nowMs - (this.#known.get(sha256) ?? Number.NEGATIVE_INFINITY)) < TOUCH_EVERY_MS) return;
    const name = nameAttachment(sha256, this.#key);
    const path = join(this.#folder, name);
    if (!this.#made) {
      makeFolder(this.#folder);
      this.#made = true;
    }
    if (!touch(path, nowMs)) {
      const partial = `${path}.${process.pid}.part`;
      try {
        writeFileSync(partial, this.#sealer?.seal(content, Buffer.from(name)) ?? content);
        renameSync(partial, path);
      } catch (error) {
        this.#made = false;
        rmSync(partial, { force: true });
        throw error;
      }
    }
    this.#unsynced.push({ name, sha256 });
    this.#known.set(sha256, nowMs);
  }

  /** Forgets which files exist. To be called when the folder may have been removed. */
  forget(): void {
    this.#unsynced = [];
    this.#isInDoubt = false;
    this.#made = false;
    this.#known.clear();
  }

  /**
   * Syncs the files written since the last successful call, and the folder. Files may be saved meanwhile; the next call
   * syncs them.
   * @throws the storage's error
   */
  async sync(): Promise<void> {
    const unsynced = this.#unsynced;
    const synced = unsynced.length;
    if (synced === 0) return;
    try {
      for (const { name, sha256 } of unsynced.slice()) {
        if (this.#isInDoubt) this.#rewrite(name, sha256);
        else await syncPathAside(join(this.#folder, name));
      }
      await syncPathAside(this.#folder);
    } catch (error) {
      this.#isInDoubt = true;
      throw error;
    }
    this.#isInDoubt = false;
    unsynced.splice(0, synced);
  }

  /**
   * Writes a file again with the bytes that the file system returns for it.
   * @throws a file system error; Error if the bytes do not match the digest; SealError
   */
  #rewrite(name: string, sha256: string): void {
    const path = join(this.#folder, name);
    const content = readFileSync(path);
    const plain = this.#sealer?.open(content, Buffer.from(name)) ?? content;
    if (hash('sha256', plain, 'hex') !== sha256) throw new Error(`attachment ${name} is damaged`);
    const partial = `${path}.${process.pid}.part`;
    try {
      writeFileSync(partial, content, { flush: true });
      renameSync(partial, path);
    } catch (error) {
      rmSync(partial, { force: true });
      throw error;
    }
  }
}

/**
 * Updates the modification time of a file.
 * @returns false if that fails, for example because the file does not exist or has another owner; then the file must be
 *   written again
 */
function touch(path: string, nowMs: number): boolean {
  try {
    utimesSync(path, nowMs / 1_000, nowMs / 1_000);
    return true;
  } catch {
    return false;
  }
}

/**
 * Reads an attachment's file from another place if the folder does not have it; null if the file does not exist there
 * either.
 */
type FindElsewhere = (name: string) => Buffer | null;

/**
 * Restores a stored body: replaces each placeholder by its attachment.
 * @param key null: the files are not encrypted
 * @throws {Error} if a file is missing or its content does not match its name; what `elsewhere` throws
 */
export function restoreAttachments(
  stored: Buffer,
  folder: string,
  key: DataKey | null = null,
  elsewhere: FindElsewhere = () => null,
): Buffer {
  const parts: Buffer[] = [];
  let at = 0;
  let hit = stored.indexOf(PLACEHOLDER_HEAD_BYTES);
  while (hit >= 0) {
    const mark = stored.toString('latin1', hit + PLACEHOLDER_HEAD.length, hit + PLACEHOLDER_BYTES - 1);
    const content = readAttachment(folder, mark.slice(1), key, elsewhere);
    parts.push(stored.subarray(at, hit), encodeAttachment(mark[0] as Variant, content));
    at = hit + PLACEHOLDER_BYTES;
    hit = stored.indexOf(PLACEHOLDER_HEAD_BYTES, at);
  }
  if (parts.length === 0) return stored;
  parts.push(stored.subarray(at));
  return Buffer.concat(parts);
}

function readAttachment(
  folder: string,
  sha256: string,
  key: DataKey | null,
  elsewhere: FindElsewhere,
): Buffer {
  const name = nameAttachment(sha256, key);
  const path = join(folder, name);
  let content: Buffer;
  try {
    content = readFileSync(path);
  } catch (error) {
    const found = elsewhere(name);
    if (found === null) throw new Error(`attachment ${path} is missing`, { cause: error });
    content = found;
  }
  if (key !== null) {
    try {
      content = openAttachment(name, content, key);
    } catch (error) {
      throw new Error(`attachment ${path} is damaged`, { cause: error });
    }
  }
  if (hash('sha256', content, 'hex') !== sha256) throw new Error(`attachment ${path} is damaged`);
  return content;
}

function encodeAttachment(variant: Variant, content: Buffer): Buffer {
  switch (variant) {
    case 'r':
      return content;
    case 's':
      return Buffer.from(content.toString('base64'), 'latin1');
    case 'n':
      return Buffer.from(content.toString('base64').replace(/=+$/, ''), 'latin1');
    case 'e':
      return Buffer.from(content.toString('base64').replaceAll('/', '\\/'), 'latin1');
    case 'v':
      return Buffer.from(content.toString('base64url'), 'latin1');
    case 'u': {
      const url = content.toString('base64url');
      return Buffer.from(url.padEnd(Math.ceil(url.length / 4) * 4, '='), 'latin1');
    }
    default:
      throw new Error('an attachment has an unknown form');
  }
}
