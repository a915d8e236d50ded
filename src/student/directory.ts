/**
 * The directory that a student lives in: `manifest.json`, and beside it the files that it names, called by their own
 * content. `distill` and `loop` write it, the gateway reads it. Any thread; processes may share a directory.
 *
 *   manifest.json             what is there (src/student/model/manifest.ts); written last, in one step
 *   manifest.previous.json    what was there before
 *   steps-<hash>.bin          the student's model: msgpack, zstd; a second one is the student that was measured
 *   patterns.jsonl            patterns of the golden runs, a JSON object a line; no part of the student
 *
 * A reader sees the old student or the new one, whole: files never change under a name, the manifest is renamed into
 * place when they are on the disk, and those of the student before stay until the next one is published. Every file is
 * checked against its SHA-256 before anything is made of it.
 */

import { createHash, randomUUID } from 'node:crypto';
import { constants, existsSync } from 'node:fs';
import { open, readdir, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { zstdCompress, zstdDecompress } from 'node:zlib';
import { Packr } from 'msgpackr';
import { STUDENT_BOUNDS } from '../limits.ts';
import { describeRefusal } from '../std/file-place.ts';
import { makeFolder } from '../std/folder.ts';
import { syncPath } from '../storage/capture/attachments.ts';
import {
  isManifestFault,
  readManifest,
  STUDENT_FORMAT,
  type StudentFile,
  type StudentManifest,
  type StudentManifestDraft,
} from './model/manifest.ts';
import type { StudentModel } from './model/student-model.ts';

export const MANIFEST_NAME = 'manifest.json';
const PATTERNS_NAME = 'patterns.jsonl';
/** What fits into the steps' file of a manifest of this format. */
const MODEL_FORMAT: StudentModel['format'] = 'svc_student_model_v1';
const PREVIOUS_NAME = 'manifest.previous.json';
/** Names that this file gives, those of interrupted writes included. */
const OWN_NAME =
  /^(?:steps-[0-9a-f]{16}\.bin|patterns\.jsonl|manifest(?:\.previous)?\.json)(?:\.[0-9a-f-]{36}\.partial)?$/;
/** An interrupted write is left alone for so long: it may be under way elsewhere. */
const PARTIAL_KEPT_MS = 3_600_000;
/** How often a reader looks again when a publication has overtaken it. */
const READ_ATTEMPTS = 5;

const compress = promisify(zstdCompress);
const decompress = promisify(zstdDecompress);
/** Plain msgpack with typed arrays. */
const packr = new Packr({ useRecords: false, moreTypes: true, variableMapSize: true });

export type StudentDirectoryFault =
  /** No such directory, or none with a manifest. */
  | 'missing'
  /** It is something else: not a directory, or one with other files in it. */
  | 'foreign'
  | 'newer_format'
  | 'damaged'
  | 'unreadable'
  | 'unwritable';

/** A directory that cannot be used; one line that says which file, why, and what to do. */
export class StudentDirectoryError extends Error {
  readonly code: StudentDirectoryFault;
  readonly path: string;

  constructor(code: StudentDirectoryFault, path: string, why: string, options?: ErrorOptions) {
    super(`${path}: ${why}`, options);
    this.name = 'StudentDirectoryError';
    this.code = code;
    this.path = path;
  }
}

/** What a directory holds. */
export interface StudentDirectory {
  manifest: StudentManifest;
  /** As `publishStudent` was given it. */
  model: StudentModel;
}

/**
 * Reads a directory, every byte checked.
 * @throws StudentDirectoryError
 */
export async function readStudentDirectory(directory: string): Promise<StudentDirectory> {
  for (let attempt = 1; ; attempt++) {
    const manifest = await readStudentManifest(directory);
    try {
      const packed = await readStudentFile(directory, manifest.files.steps);
      return { manifest, model: await unpackModel(join(directory, manifest.files.steps.name), packed) };
    } catch (error) {
      // Two publications since the manifest was read have taken the file away; what is there now is whole.
      const now = await readStudentManifest(directory);
      if (now.version === manifest.version || attempt === READ_ATTEMPTS) throw error;
    }
  }
}

/**
 * Reads the student whose figures the manifest holds: the one in the directory, or the one that was measured.
 * @throws StudentDirectoryError
 */
export async function readMeasuredStudent(directory: string): Promise<StudentDirectory> {
  const whole = await readStudentDirectory(directory);
  const { measured } = whole.manifest.files;
  if (measured === undefined) return whole;
  const packed = await readStudentFile(directory, measured);
  return { manifest: whole.manifest, model: await unpackModel(join(directory, measured.name), packed) };
}

/**
 * Reads the manifest alone: cheap, and enough to see whether there is another student.
 * @throws StudentDirectoryError
 */
export async function readStudentManifest(directory: string): Promise<StudentManifest> {
  const manifest = await findManifest(directory);
  if (manifest !== null) return manifest;
  const why = `no ${MANIFEST_NAME} in it; understudy distill --out makes one`;
  throw new StudentDirectoryError('missing', directory, why);
}

/**
 * Reads one file that a manifest names.
 * @throws StudentDirectoryError when it is missing or is not what the manifest says
 */
async function readStudentFile(directory: string, file: StudentFile): Promise<Buffer> {
  const path = join(directory, file.name);
  const bytes = await readBounded(path, STUDENT_BOUNDS.file_bytes);
  if (bytes === null)
    throw new StudentDirectoryError('damaged', path, `missing, though ${MANIFEST_NAME} names it`);
  if (bytes.byteLength !== file.bytes) {
    const why = `has ${bytes.byteLength} bytes, ${MANIFEST_NAME} says ${file.bytes}; distil again`;
    throw new StudentDirectoryError('damaged', path, why);
  }
  if (hashOf(bytes) !== file.sha256) {
    throw new StudentDirectoryError(
      'damaged',
      path,
      `not what ${MANIFEST_NAME} says (SHA-256); distil again`,
    );
  }
  return bytes;
}

/**
 * Whether a student may be published there: looks what is in it, and tries to write. Leaves nothing behind.
 * @returns the manifest of the student that is there; null when there is none
 * @throws StudentDirectoryError for a directory with anything else in it, or none that can be written to
 */
export async function checkForPublishing(directory: string): Promise<StudentManifest | null> {
  const made = makeDirectory(directory);
  try {
    return await openForPublishing(directory);
  } finally {
    if (made !== undefined) await rm(made, { recursive: true, force: true });
  }
}

/** @returns the topmost directory that had to be made; undefined when all were there */
function makeDirectory(directory: string): string | undefined {
  try {
    return makeFolder(directory);
  } catch (error) {
    const code = codeOf(error);
    // Where it is not there, what is no directory stands above it.
    if (code === 'EEXIST' || (code === 'ENOTDIR' && existsSync(directory)))
      throw new StudentDirectoryError('foreign', directory, 'not a directory');
    throw new StudentDirectoryError(
      'unwritable',
      directory,
      `cannot be made: ${describeRefusal(error) ?? code}`,
      { cause: error },
    );
  }
}

async function openForPublishing(directory: string): Promise<StudentManifest | null> {
  makeDirectory(directory);
  const names = await listNames(directory);
  const manifest = await findManifest(directory);
  const other = names.find((name) => !OWN_NAME.test(name));
  if (manifest === null && other !== undefined) {
    const why = `not empty (${JSON.stringify(other.slice(0, 80))}), and no ${MANIFEST_NAME} in it: name another directory`;
    throw new StudentDirectoryError('foreign', directory, why);
  }
  const probe = partialOf(join(directory, MANIFEST_NAME));
  try {
    await writeSynced(probe, Buffer.alloc(0));
  } finally {
    await rm(probe, { force: true });
  }
  return manifest;
}

/**
 * Puts patterns into the directory, in place of those that are there.
 * @returns the file's path
 * @throws StudentDirectoryError
 */
export async function writePatterns(directory: string, lines: string): Promise<string> {
  await openForPublishing(directory);
  const path = join(directory, PATTERNS_NAME);
  await replaceFile(path, Buffer.from(lines, 'utf8'));
  return path;
}

/**
 * Publishes a student: a reader has the one before until this one is whole. Files of neither are removed.
 * @param measured the student that was measured, where that is another
 * @returns the manifest as it was written
 * @throws StudentDirectoryError
 */
export async function publishStudent(
  directory: string,
  draft: StudentManifestDraft,
  model: StudentModel,
  measured: StudentModel | null = null,
): Promise<StudentManifest> {
  const before = await openForPublishing(directory);
  const steps = await writeSteps(directory, await compress(packr.pack(model)));
  const files =
    measured === null
      ? { steps }
      : { steps, measured: await writeSteps(directory, await compress(packr.pack(measured))) };
  const manifest: StudentManifest = {
    format: STUDENT_FORMAT,
    version: (before?.version ?? 0) + 1,
    ...draft,
    files,
  };
  const text = formatManifest(manifest);
  const read = readManifest(text);
  // Never a manifest that no gateway would take.
  if (isManifestFault(read)) throw new Error(`the manifest to be written is none: ${read.words}`);
  if (before !== null) await replaceFile(join(directory, PREVIOUS_NAME), Buffer.from(formatManifest(before)));
  await replaceFile(join(directory, MANIFEST_NAME), Buffer.from(text));
  syncPath(directory);
  await removeOld(directory, before === null ? [manifest] : [manifest, before]);
  return manifest;
}

function formatManifest(manifest: StudentManifest): string {
  return `${JSON.stringify(manifest, null, 2)}\n`;
}

async function findManifest(directory: string): Promise<StudentManifest | null> {
  const path = join(directory, MANIFEST_NAME);
  const bytes = await readBounded(path, STUDENT_BOUNDS.manifest_bytes);
  if (bytes === null) {
    // Says what is wrong with the directory itself, if something is.
    await listNames(directory);
    return null;
  }
  const read = readManifest(bytes.toString('utf8'));
  if (!isManifestFault(read)) return read;
  const code = read.fault === 'newer' ? 'newer_format' : read.fault;
  throw new StudentDirectoryError(code, path, read.words);
}

async function unpackModel(path: string, packed: Buffer): Promise<StudentModel> {
  let model: unknown;
  try {
    model = packr.unpack(await decompress(packed, { maxOutputLength: STUDENT_BOUNDS.unpacked_bytes }));
  } catch (error) {
    const why = `cannot be unpacked (${(error as Error).message.slice(0, 120)}); distil again`;
    throw new StudentDirectoryError('damaged', path, why, { cause: error });
  }
  const format = (model as { format?: unknown } | null)?.format;
  if (format === MODEL_FORMAT) return model as StudentModel;
  const why = `holds ${JSON.stringify(format)?.slice(0, 80)}, this version takes ${MODEL_FORMAT}; distil again`;
  throw new StudentDirectoryError('newer_format', path, why);
}

async function listNames(directory: string): Promise<string[]> {
  try {
    return await readdir(directory);
  } catch (error) {
    const code = codeOf(error);
    if (code === 'ENOENT')
      throw new StudentDirectoryError(
        'missing',
        directory,
        'no such directory; understudy distill --out makes one',
      );
    if (code === 'ENOTDIR') throw new StudentDirectoryError('foreign', directory, 'not a directory');
    throw new StudentDirectoryError(
      'unreadable',
      directory,
      `cannot be read: ${describeRefusal(error) ?? code}`,
      { cause: error },
    );
  }
}

/** @returns null when there is no such file */
async function readBounded(path: string, most: number): Promise<Buffer | null> {
  try {
    // Of a named pipe one would wait for somebody to write to it.
    const handle = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      const stat = await handle.stat();
      if (!stat.isFile()) throw new StudentDirectoryError('unreadable', path, 'not a file');
      const { size } = stat;
      if (size > most) throw new StudentDirectoryError('damaged', path, `larger than ${most} bytes`);
      return await handle.readFile();
    } finally {
      await handle.close();
    }
  } catch (error) {
    if (error instanceof StudentDirectoryError) throw error;
    const code = codeOf(error);
    if (code === 'ENOENT' || code === 'ENOTDIR') return null;
    throw new StudentDirectoryError('unreadable', path, `cannot be read: ${describeRefusal(error) ?? code}`, {
      cause: error,
    });
  }
}

/** Writes a file that is called by its content. */
async function writeSteps(directory: string, bytes: Buffer): Promise<StudentFile> {
  if (bytes.byteLength > STUDENT_BOUNDS.file_bytes) {
    const why = `the steps would take ${bytes.byteLength} bytes, more than ${STUDENT_BOUNDS.file_bytes}`;
    throw new StudentDirectoryError('unwritable', directory, why);
  }
  const sha256 = hashOf(bytes);
  const file = { name: `steps-${sha256.slice(0, 16)}.bin`, bytes: bytes.byteLength, sha256 };
  await replaceFile(join(directory, file.name), bytes);
  return file;
}

async function replaceFile(path: string, bytes: Buffer): Promise<void> {
  const partial = partialOf(path);
  try {
    await writeSynced(partial, bytes);
    await rename(partial, path);
  } catch (error) {
    await rm(partial, { force: true });
    if (error instanceof StudentDirectoryError) throw error;
    throw new StudentDirectoryError(
      'unwritable',
      path,
      `cannot be written: ${describeRefusal(error) ?? codeOf(error)}`,
      {
        cause: error,
      },
    );
  }
}

async function writeSynced(path: string, bytes: Buffer): Promise<void> {
  try {
    const handle = await open(path, 'wx');
    try {
      await handle.writeFile(bytes);
      await handle.sync();
    } finally {
      await handle.close();
    }
  } catch (error) {
    throw new StudentDirectoryError(
      'unwritable',
      path,
      `cannot be written: ${describeRefusal(error) ?? codeOf(error)}`,
      {
        cause: error,
      },
    );
  }
}

function partialOf(path: string): string {
  return `${path}.${randomUUID()}.partial`;
}

/** Removes our files that none of the manifests names. That one cannot be removed harms nobody. */
async function removeOld(directory: string, kept: readonly StudentManifest[]): Promise<void> {
  const named = new Set<string>([MANIFEST_NAME, PREVIOUS_NAME, PATTERNS_NAME]);
  for (const { files } of kept) {
    named.add(files.steps.name);
    if (files.measured !== undefined) named.add(files.measured.name);
  }
  for (const name of await listNames(directory)) {
    if (named.has(name) || !OWN_NAME.test(name)) continue;
    const path = join(directory, name);
    try {
      const isRecent = name.endsWith('.partial') && Date.now() - (await stat(path)).mtimeMs < PARTIAL_KEPT_MS;
      if (!isRecent) await rm(path, { force: true });
    } catch {
      // Somebody else has removed it, or may remove it next time.
    }
  }
}

function hashOf(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

function codeOf(error: unknown): string {
  return (error as NodeJS.ErrnoException).code ?? (error as Error).message;
}
