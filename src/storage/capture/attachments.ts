/**
 * Images and documents, stored once. Finds base64 text of 1 KiB (decoded) and more in bodies, keeps the decoded bytes
 * in `<db>.files/<sha256>`, and leaves a placeholder in the body, so that the body can be put together again byte for
 * byte. Runs in the capture process (find, save) and in readers (restore).
 *
 * A placeholder is `NUL @svc-file: <variant> <sha256 in hex> NUL`. A body that holds the placeholder's beginning itself
 * is left as it is (nothing is taken out), so no escaping is needed: the exchange's record says whether there are any.
 *
 * With a data key the file is sealed, and its name is made of the digest and the key: it does not say what is in it. The
 * placeholder stays the same, since it stands in what is sealed.
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
import { syncPath } from '../../std/synced-path.ts';

/** Files that are known to be saved without asking the disk. */
const MAX_KNOWN = 65_536;
/** A file's time is written anew so often at most. */
const TOUCH_EVERY_MS = 3_600_000;
/** Shorter base64 is no attachment. */
export const MIN_BASE64_CHARS = Math.ceil((ATTACHMENT_BYTES_MIN * 4) / 3);

const PLACEHOLDER_HEAD = '\0@svc-file:';
/** What every placeholder begins with. */
export const PLACEHOLDER_HEAD_BYTES = Buffer.from(PLACEHOLDER_HEAD, 'latin1');
const PLACEHOLDER_NEEDLE = packNeedles([PLACEHOLDER_HEAD_BYTES]);
const PLACEHOLDER_BYTES = PLACEHOLDER_HEAD.length + 1 + 64 + 1;

/**
 * How the bytes stand in the body: `s` base64, `n` base64 without padding, `u` base64url with padding, `v` base64url
 * without, `e` base64 with `/` written `\/` as some JSON writers do, `r` the bytes themselves.
 */
type Variant = 's' | 'n' | 'u' | 'v' | 'e' | 'r';

/** One attachment found in a body: the range to take out and what to put there. */
export interface FoundAttachment {
  start: number;
  end: number;
  placeholder: Buffer;
  sha256: string;
  content: Buffer;
}

/** 1 for what base64, base64url and escaped slashes are made of. */
const BASE64_BYTE = new Uint8Array(256);
for (const char of 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=-_\\') {
  BASE64_BYTE[char.charCodeAt(0)] = 1;
}

/** The member (or data URI) whose value may be an attachment. */
const MEMBER_BEFORE =
  /(?:"(?:data|bytes|b64_json|base64|file_data|image|image_base64|partial_image_b64|content_bytes)\\?"\s*:\s*\\?"|;base64,|"images\\?"\s*:\s*\[\s*\\?"|"\s*,\s*\\?")$/;
/** Base64 that is neither image nor document. */
const NOT_A_FILE = /redacted_thinking|encrypted_content|"signature/;

/** Whether a body may hold placeholders that its sender wrote. */
export function mayHoldPlaceholder(body: Buffer): boolean {
  return byteEngine.findAnyNeedle(body, 0, body.length, PLACEHOLDER_NEEDLE) >= 0;
}

/** Base64 attachments of a text body, in [from, to). */
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
  // In JSON inside JSON the closing quote is escaped: its backslash is no part of the text.
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

/** Decodes, and says which way of writing gives exactly this text back; null when none does. */
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
  // It is kept with the edits of a body.
  const placeholder = leaveRest(Buffer.from(`${PLACEHOLDER_HEAD}${variant}${sha256}\0`, 'latin1'));
  return { start, end, placeholder, sha256, content };
}

/** Media types whose whole body is an image or a document. */
const BINARY_TYPE =
  /^\s*(?:image\/(?!svg)|audio\/|video\/|font\/|application\/(?:pdf|zip|gzip|x-tar|octet-stream|vnd\.(?:openxmlformats|ms-|oasis)))/i;

/** Whether a body's media type says that it is an image or a document, and it is large enough to be kept apart. */
export function isBinary(body: Buffer, contentType: string | null): boolean {
  return contentType !== null && body.length >= ATTACHMENT_BYTES_MIN && BINARY_TYPE.test(contentType);
}

/** The whole body as one attachment, when its media type says that it is binary; else null. */
export function wrapBinaryBody(body: Buffer, contentType: string | null): FoundAttachment | null {
  return !isBinary(body, contentType) ? null : makeAttachment(0, body.length, 'r', body);
}

/** Of the data key: what attachments are sealed and named for. */
const PURPOSE = 'attachment';

/** The name of its file. @param key null: files are not sealed */
export function nameAttachment(sha256: string, key: DataKey | null): string {
  return key === null ? sha256 : key.nameOf(PURPOSE, sha256);
}

/** As it stands in the file of that name. */
export function sealAttachment(name: string, content: Uint8Array, key: DataKey): Buffer {
  return key.sealer(PURPOSE).seal(content, Buffer.from(name));
}

/** @throws SealError */
export function openAttachment(name: string, sealed: Uint8Array, key: DataKey): Buffer {
  return key.sealer(PURPOSE).open(sealed, Buffer.from(name));
}

/** The files beside a capture database. */
export class AttachmentStore {
  readonly #folder: string;
  /** Written since the last sync, by name. */
  #unsynced: { name: string; sha256: string }[] = [];
  /** A sync has failed: the next would succeed without what the system could not write and has forgotten. */
  #isInDoubt = false;
  #made = false;
  /** Names known to be on disk, and when that was last written down there; bounded, the oldest forgotten first. */
  readonly #known = new RecentMap<string, number>(MAX_KNOWN);

  readonly #key: DataKey | null;
  readonly #sealer: Sealer | null;

  /** @param key of the files; null: they are not sealed */
  constructor(folder: string, key: DataKey | null = null) {
    this.#folder = folder;
    this.#key = key;
    this.#sealer = key?.sealer(PURPOSE) ?? null;
  }

  /**
   * Saves the bytes under their name unless they are there; then their file's time says that they are named still
   * (expiry.ts), an hour late at most. Written beside and renamed, so that a file is whole or
   * missing.
   * @throws the file system's error; nothing is left behind then
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

  /** The folder may have been taken away: what comes is saved whether it is known or not. */
  forget(): void {
    this.#unsynced = [];
    this.#isInDoubt = false;
    this.#made = false;
    this.#known.clear();
  }

  /** fsync of what was written since the last call that did not fail, and of the folder. @throws the storage's error */
  sync(): void {
    if (this.#unsynced.length === 0) return;
    try {
      for (const { name, sha256 } of this.#unsynced) {
        if (this.#isInDoubt) this.#rewrite(name, sha256);
        else syncPath(join(this.#folder, name));
      }
      syncPath(this.#folder);
    } catch (error) {
      this.#isInDoubt = true;
      throw error;
    }
    this.#isInDoubt = false;
    this.#unsynced = [];
  }

  /** Writes a file anew, from what memory or the disk still has of it. @throws the storage's error, also when that is not all */
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

/** @returns false where the file is not there, or is not ours to touch: then it is to be written anew */
function touch(path: string, nowMs: number): boolean {
  try {
    utimesSync(path, nowMs / 1_000, nowMs / 1_000);
    return true;
  } catch {
    return false;
  }
}

/**
 * Puts the attachments back where their placeholders stand.
 * @param key of the files; null: they are not sealed
 * @throws {Error} when a file is missing or is not what its name says
 */
export function restoreAttachments(stored: Buffer, folder: string, key: DataKey | null = null): Buffer {
  const parts: Buffer[] = [];
  let at = 0;
  let hit = stored.indexOf(PLACEHOLDER_HEAD_BYTES);
  while (hit >= 0) {
    const mark = stored.toString('latin1', hit + PLACEHOLDER_HEAD.length, hit + PLACEHOLDER_BYTES - 1);
    parts.push(stored.subarray(at, hit), readAttachment(folder, mark[0] as Variant, mark.slice(1), key));
    at = hit + PLACEHOLDER_BYTES;
    hit = stored.indexOf(PLACEHOLDER_HEAD_BYTES, at);
  }
  if (parts.length === 0) return stored;
  parts.push(stored.subarray(at));
  return Buffer.concat(parts);
}

function readAttachment(folder: string, variant: Variant, sha256: string, key: DataKey | null): Buffer {
  const name = nameAttachment(sha256, key);
  const path = join(folder, name);
  let content: Buffer;
  try {
    content = readFileSync(path);
  } catch (error) {
    throw new Error(`attachment ${path} is missing`, { cause: error });
  }
  if (key !== null) {
    try {
      content = openAttachment(name, content, key);
    } catch (error) {
      throw new Error(`attachment ${path} is damaged`, { cause: error });
    }
  }
  if (hash('sha256', content, 'hex') !== sha256) throw new Error(`attachment ${path} is damaged`);
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
      throw new Error(`attachment ${path} has an unknown form`);
  }
}
