/**
 * The directory of a student: its versions, and what `distill` and operators store beside them. `distill` and `loop`
 * write the versions, the gateway reads them. Any thread; processes may share a directory.
 *
 *   manifest.json          the version that serves (src/student/model/manifest.ts); written last, in one step
 *   manifest.v<N>.json     each version that is kept, the serving one included (STUDENT_VERSIONS)
 *   steps-<hash>.bin       a model, as msgpack compressed with zstd, named by the hash of its content. If the figures
 *                          were measured on a model other than the one that serves, that model has a second file
 *   patterns.jsonl         patterns of the golden runs, one JSON object per line; not part of the student
 *   orders.json            an operator's orders (src/student/orders.ts)
 *   names.json             operators' names for agent variants (src/student/agent-names.ts)
 *
 * A reader sees either the complete old student or the complete new one, for three reasons: the content of a `steps`
 * file never changes, the manifest is renamed into place after these files are on the disk, and the files of kept
 * versions stay. A reader checks the SHA-256 of a `steps` file before it uses the file. Without manifest.json no
 * version serves, whatever the directory contains.
 */

import { createHash, randomUUID } from 'node:crypto';
import { constants, existsSync } from 'node:fs';
import { open, readdir, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { zstdCompress, zstdDecompress } from 'node:zlib';
import { Packr } from 'msgpackr';
import { describeRefusal } from '../std/file-place.ts';
import { makeFolder } from '../std/folder.ts';
import { syncPath } from '../std/synced-path.ts';
import { NAMES_NAME } from './agent-names.ts';
import {
  isManifestFault,
  readManifest,
  STUDENT_BOUNDS,
  STUDENT_FORMAT,
  type StudentFile,
  type StudentManifest,
  type StudentManifestDraft,
} from './model/manifest.ts';
import type { StudentModel } from './model/student-model.ts';
import { ORDERS_NAME } from './orders.ts';

/** Maximum number of versions that a directory keeps, and maximum bytes of their files together. */
export const STUDENT_VERSIONS = { kept: 8, bytes: 1 << 30 } as const;

export const MANIFEST_NAME = 'manifest.json';
const PATTERNS_NAME = 'patterns.jsonl';
/** The format of the models that a manifest of format STUDENT_FORMAT names. */
const MODEL_FORMAT: StudentModel['format'] = 'svc_student_model_v2';
const VERSION_NAME = /^manifest\.v(\d{1,9})\.json$/;
/** Names of the files in a student's directory, of this and of earlier versions, and of interrupted writes. */
const OWN_NAME =
  /^(?:steps-[0-9a-f]{16}\.bin|patterns\.jsonl|orders\.json|names\.json|manifest(?:\.previous|\.v\d{1,9})?\.json)(?:\.[0-9a-f-]{36}\.partial)?$/;
/** An incomplete file is kept for this long, because another process may still be writing it. */
const PARTIAL_KEPT_MS = 3_600_000;
/** Maximum number of attempts to read, because publications may replace the files meanwhile. */
const READ_ATTEMPTS = 5;

const compress = promisify(zstdCompress);
const decompress = promisify(zstdDecompress);
/** Plain msgpack with typed arrays. */
const packr = new Packr({ useRecords: false, moreTypes: true, variableMapSize: true });

type StudentDirectoryFault =
  /** The directory does not exist, has no manifest, or does not keep the wanted version. */
  | 'missing'
  /** The path is not a directory, or the directory has no manifest but files that are not a student's. */
  | 'foreign'
  | 'newer_format'
  | 'damaged'
  | 'unreadable'
  | 'unwritable';

/** A directory that cannot be used; one line says which file, why, and what to do. */
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

/** A version that was read from a directory. */
export interface StudentDirectory {
  manifest: StudentManifest;
  /** The version's model; from `readMeasuredStudent`, the measured model if the version has a separate one. */
  model: StudentModel;
}

/**
 * Reads the serving version: its manifest and its model, whose file must match the manifest's SHA-256. The file of a
 * separately measured model is not read.
 * @throws StudentDirectoryError
 */
export async function readStudentDirectory(directory: string): Promise<StudentDirectory> {
  for (let attempt = 1; ; attempt++) {
    const manifest = await readStudentManifest(directory);
    try {
      const packed = await readStudentFile(directory, manifest.files.steps);
      return { manifest, model: await unpackModel(join(directory, manifest.files.steps.name), packed) };
    } catch (error) {
      // Publications may have removed the file since the manifest was read. Read again: the current version is
      // complete.
      const now = await readStudentManifest(directory);
      if (now.version === manifest.version || attempt === READ_ATTEMPTS) throw error;
    }
  }
}

/**
 * Reads the student that the manifest's figures describe: the separately measured student if there is one, otherwise
 * the student that serves.
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
 * Reads only the manifest, which is cheap and enough to detect a change of the student.
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
 * @throws StudentDirectoryError when the file is missing, cannot be read or does not match the manifest
 */
export async function readStudentFile(directory: string, file: StudentFile): Promise<Buffer> {
  const path = join(directory, file.name);
  const bytes = await readBounded(path, STUDENT_BOUNDS.file_bytes);
  if (bytes === null)
    throw new StudentDirectoryError(
      'damaged',
      path,
      `missing, though ${MANIFEST_NAME} names it; distil again`,
    );
  if (bytes.byteLength !== file.bytes) {
    const why = `has ${bytes.byteLength} bytes, ${MANIFEST_NAME} says ${file.bytes}; distil again`;
    throw new StudentDirectoryError('damaged', path, why);
  }
  if (hashOf(bytes) !== file.sha256) {
    throw new StudentDirectoryError(
      'damaged',
      path,
      `does not match ${MANIFEST_NAME} (SHA-256); distil again`,
    );
  }
  return bytes;
}

/**
 * Checks that a gateway may wait for its first student in the directory.
 * @throws StudentDirectoryError for a directory that is missing or cannot be read, for a path that is not a directory,
 *   and for a directory with other files and no manifest.json
 */
export async function checkForWaiting(directory: string): Promise<void> {
  const names = await listNames(directory);
  const foreign = names.find((name) => !OWN_NAME.test(name));
  if (foreign === undefined || names.includes(MANIFEST_NAME)) return;
  const why = `no ${MANIFEST_NAME} in it, and something else (${JSON.stringify(foreign.slice(0, 80))}): name another directory`;
  throw new StudentDirectoryError('foreign', directory, why);
}

/**
 * Checks that a student may be published in the directory: checks the directory's content and tries to write. The
 * check leaves nothing behind: it removes directories that it had to create.
 * @returns the manifest of the serving version; null when no version serves
 * @throws StudentDirectoryError for a directory with other content, or one that cannot be written to
 */
export async function checkForPublishing(directory: string): Promise<StudentManifest | null> {
  const made = makeDirectory(directory);
  try {
    return await openForPublishing(directory);
  } finally {
    if (made !== undefined) await rm(made, { recursive: true, force: true });
  }
}

/**
 * Creates the directory and its missing parents.
 * @returns the topmost directory that was created; undefined when all existed
 */
function makeDirectory(directory: string): string | undefined {
  try {
    return makeFolder(directory);
  } catch (error) {
    const code = codeOf(error);
    // The directory does not exist, so one of its parents is not a directory.
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
  const foreign = names.find((name) => !OWN_NAME.test(name));
  if (manifest === null && foreign !== undefined) {
    const why = `not empty (${JSON.stringify(foreign.slice(0, 80))}), and no ${MANIFEST_NAME} in it: name another directory`;
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
 * Writes patterns into the directory, replacing earlier ones.
 * @returns the file's path
 * @throws StudentDirectoryError
 */
export async function writePatterns(directory: string, lines: string): Promise<string> {
  await openForPublishing(directory);
  const path = join(directory, PATTERNS_NAME);
  await replaceFile(path, Buffer.from(lines, 'utf8'));
  return path;
}

/** How a student is published in its directory. */
interface Publication {
  /** The student that was measured, when it is not the published student. */
  measured?: StudentModel | null;
  /** false: keep the student as a version, and do not serve it. */
  serves?: boolean;
  /** Called with the version's number when the version is kept, and before it serves (if it is to serve). */
  before?: (version: number) => Promise<void>;
}

/**
 * Keeps a student as a new version, which then serves unless `serves` is false, and removes versions beyond
 * STUDENT_VERSIONS. Readers get the previous version until the new one is complete.
 * @returns the manifest as written
 * @throws StudentDirectoryError; Error for a draft that makes an invalid manifest; errors of `before`
 */
export async function publishStudent(
  directory: string,
  draft: StudentManifestDraft,
  model: StudentModel,
  { measured = null, serves = true, before: prepare }: Publication = {},
): Promise<StudentManifest> {
  const before = await openForPublishing(directory);
  const steps = await writeSteps(directory, await compress(packr.pack(model)));
  const files =
    measured === null
      ? { steps }
      : { steps, measured: await writeSteps(directory, await compress(packr.pack(measured))) };
  const kept = await listVersionNumbers(directory);
  const version = Math.max(before?.version ?? 0, ...kept) + 1;
  const manifest: StudentManifest = { format: STUDENT_FORMAT, version, ...draft, files };
  const text = formatManifest(manifest);
  const read = readManifest(text);
  // Never write a manifest that no gateway would accept.
  if (isManifestFault(read)) throw new Error(`the manifest to be written is invalid: ${read.words}`);
  // An earlier release did not keep the current version; keep it now.
  if (before !== null && !kept.includes(before.version)) await keepVersion(directory, before);
  await keepVersion(directory, manifest);
  await prepare?.(version);
  if (serves) await replaceFile(join(directory, MANIFEST_NAME), Buffer.from(text));
  syncPath(directory);
  await removeOld(directory, serves ? [manifest, before] : [before, manifest]);
  return manifest;
}

/**
 * Makes a kept version the serving one, in one step.
 * @returns the version's manifest
 * @throws StudentDirectoryError when the directory does not keep the version, when the file of the version's model
 *   cannot be used, or when the directory cannot be written to
 */
export async function serveVersion(directory: string, version: number): Promise<StudentManifest> {
  const manifest = await readVersion(directory, version);
  await unpackModel(
    join(directory, manifest.files.steps.name),
    await readStudentFile(directory, manifest.files.steps),
  );
  const before = await findManifest(directory).catch(() => null);
  if (before !== null) await keepVersion(directory, before);
  await replaceFile(join(directory, MANIFEST_NAME), Buffer.from(formatManifest(manifest)));
  syncPath(directory);
  return manifest;
}

/**
 * Makes a directory serve what another directory serves. Readers get the previous version until the new one is
 * complete.
 * @param manifest the manifest of the version to serve; null: no version is to serve
 * @param fetchFile fetches a file that the manifest names and the directory lacks
 * @returns whether the serving manifest has changed
 * @throws StudentDirectoryError, including when a file does not match the manifest; errors of `fetchFile`
 */
export async function adoptStudent(
  directory: string,
  manifest: StudentManifest | null,
  fetchFile: (file: StudentFile) => Promise<Buffer>,
): Promise<boolean> {
  const before = await openForPublishing(directory);
  if (manifest === null) {
    await rm(join(directory, MANIFEST_NAME), { force: true });
    return before !== null;
  }
  if (before !== null && formatManifest(before) === formatManifest(manifest)) return false;
  for (const file of [manifest.files.steps, manifest.files.measured]) {
    if (file === undefined || (await isWhole(directory, file))) continue;
    const bytes = await fetchFile(file);
    const path = join(directory, file.name);
    if (bytes.byteLength !== file.bytes || hashOf(bytes) !== file.sha256)
      throw new StudentDirectoryError('damaged', path, 'the shared files do not match their manifest');
    await replaceFile(path, bytes);
  }
  await keepVersion(directory, manifest);
  await replaceFile(join(directory, MANIFEST_NAME), Buffer.from(formatManifest(manifest)));
  syncPath(directory);
  await removeOld(directory, [manifest, before]);
  return true;
}

async function isWhole(directory: string, file: StudentFile): Promise<boolean> {
  try {
    await readStudentFile(directory, file);
    return true;
  } catch (error) {
    if (error instanceof StudentDirectoryError && error.code === 'damaged') return false;
    throw error;
  }
}

/** A version that a directory keeps. */
export interface KeptVersion {
  version: number;
  /** null: the manifest cannot be read. */
  manifest: StudentManifest | null;
  /** Why the manifest cannot be read; '': the manifest was read. */
  problem: string;
}

/**
 * Lists every kept version, newest first, the serving one included. A damaged manifest.json counts as absent.
 * @throws StudentDirectoryError when the directory is missing or cannot be read
 */
export async function listVersions(directory: string): Promise<KeptVersion[]> {
  const serving = await findManifest(directory).catch((error: unknown) => {
    if (error instanceof StudentDirectoryError && error.path !== directory) return null;
    throw error;
  });
  const numbers = new Set(await listVersionNumbers(directory));
  if (serving !== null) numbers.add(serving.version);
  const versions: KeptVersion[] = [];
  for (const version of [...numbers].sort((a, b) => b - a)) {
    try {
      const isServing = serving?.version === version;
      const manifest = isServing ? serving : await readVersion(directory, version);
      versions.push({ version, manifest, problem: '' });
    } catch (error) {
      if (!(error instanceof StudentDirectoryError)) throw error;
      versions.push({ version, manifest: null, problem: error.message });
    }
  }
  return versions;
}

/**
 * Reads a kept version, whether it serves or not: its manifest and its model.
 * @throws StudentDirectoryError
 */
export async function readStudentVersion(directory: string, version: number): Promise<StudentDirectory> {
  const manifest = await readVersion(directory, version);
  const packed = await readStudentFile(directory, manifest.files.steps);
  return { manifest, model: await unpackModel(join(directory, manifest.files.steps.name), packed) };
}

async function readVersion(directory: string, version: number): Promise<StudentManifest> {
  const name = nameVersion(version);
  const manifest = await readManifestAt(join(directory, name));
  if (manifest !== null) return manifest;
  const serving = await findManifest(directory);
  if (serving?.version === version) return serving;
  throw new StudentDirectoryError('missing', directory, `version ${version} is not kept`);
}

function nameVersion(version: number): string {
  return `manifest.v${version}.json`;
}

async function keepVersion(directory: string, manifest: StudentManifest): Promise<void> {
  await replaceFile(join(directory, nameVersion(manifest.version)), Buffer.from(formatManifest(manifest)));
}

async function listVersionNumbers(directory: string): Promise<number[]> {
  const names = await listNames(directory);
  return names.flatMap((name) => {
    const [, version] = VERSION_NAME.exec(name) ?? [];
    return version === undefined ? [] : [Number(version)];
  });
}

function formatManifest(manifest: StudentManifest): string {
  return `${JSON.stringify(manifest, null, 2)}\n`;
}

/**
 * Reads the manifest of the version that serves.
 * @returns null when no version serves
 * @throws StudentDirectoryError, including when the directory is missing
 */
export async function findManifest(directory: string): Promise<StudentManifest | null> {
  const manifest = await readManifestAt(join(directory, MANIFEST_NAME));
  // Throws if something is wrong with the directory itself.
  if (manifest === null) await listNames(directory);
  return manifest;
}

/**
 * Reads a manifest.
 * @returns null when there is no such file
 */
async function readManifestAt(path: string): Promise<StudentManifest | null> {
  const bytes = await readBounded(path, STUDENT_BOUNDS.manifest_bytes);
  if (bytes === null) return null;
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

/**
 * Reads a file of a bounded size.
 * @returns null when there is no such file
 */
async function readBounded(path: string, most: number): Promise<Buffer | null> {
  try {
    // Opening a named pipe would block until another process writes to it.
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

/** Writes a packed model into a file that is named by the SHA-256 of the packed bytes. */
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

/**
 * Removes versions beyond STUDENT_VERSIONS, versions whose manifest cannot be read, files that no kept version names,
 * and incomplete files older than PARTIAL_KEPT_MS. A file that cannot be removed does no harm.
 * @param spared manifests of versions that are never removed
 */
async function removeOld(directory: string, spared: readonly (StudentManifest | null)[]): Promise<void> {
  const named = new Set<string>([MANIFEST_NAME, PATTERNS_NAME, ORDERS_NAME, NAMES_NAME]);
  const sizes = new Map<string, number>();
  const isSpared = (version: number): boolean => spared.some((manifest) => manifest?.version === version);
  let kept = 0;
  const versions = await listVersions(directory);
  for (const { version, manifest } of versions.toSorted(
    (a, b) => Number(isSpared(b.version)) - Number(isSpared(a.version)) || b.version - a.version,
  )) {
    // An unreadable version has no usable files.
    if (manifest === null) continue;
    const files = [manifest.files.steps, manifest.files.measured].filter((file) => file !== undefined);
    const added = files.filter(({ name }) => !sizes.has(name));
    const bytes = [...sizes.values(), ...added.map((file) => file.bytes)].reduce((sum, n) => sum + n, 0);
    const hasRoom = kept < STUDENT_VERSIONS.kept && bytes <= STUDENT_VERSIONS.bytes;
    if (!isSpared(version) && !hasRoom) continue;
    kept += 1;
    for (const { name, bytes: size } of added) sizes.set(name, size);
    named.add(nameVersion(version));
  }
  for (const name of sizes.keys()) named.add(name);
  for (const name of await listNames(directory)) {
    if (named.has(name) || !OWN_NAME.test(name)) continue;
    const path = join(directory, name);
    try {
      const isRecent = name.endsWith('.partial') && Date.now() - (await stat(path)).mtimeMs < PARTIAL_KEPT_MS;
      if (!isRecent) await rm(path, { force: true });
    } catch {
      // Another process has removed the file, or a later call will remove it.
    }
  }
}

function hashOf(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

function codeOf(error: unknown): string {
  return (error as NodeJS.ErrnoException).code ?? (error as Error).message;
}
