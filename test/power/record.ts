/**
 * The record of a service's writes (recorder.c), and the states of its files that a power cut could leave.
 *
 * The model of the disk is that of ext4 and XFS: changes of names and lengths reach the disk in order, and each sync
 * completes all earlier ones. Bytes reach it page by page in any order, each page in its state at any moment since the
 * last sync of its file. A page that was being written may be torn between two such states at a multiple of 512 bytes.
 */
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';

const HEAD_BYTES = 24;
const PAGE_BYTES = 4_096;
const SECTOR_BYTES = 512;

const OPENED = 1;
const WRITTEN = 2;
const TRUNCATED = 3;
const RENAMED = 4;
const UNLINKED = 5;
const LINKED = 6;
const FOLDER_MADE = 7;
const FOLDER_REMOVED = 8;
const SYNC_BEGUN = 9;
const SYNC_ENDED = 10;
/** Appended by the test itself: an acknowledgement. */
const NOTED = 11;
const IS_SYNCED = 1;

interface Step {
  operation: number;
  is_synced: boolean;
  inode: bigint;
  /** Offset, length, or number of a sync. */
  number: bigint;
  path: string;
  bytes: Buffer;
}

interface Write {
  at_step: number;
  offset: number;
  bytes: Buffer;
}

/** What happened to one file, under any of its names. */
interface DiskFile {
  writes: Write[];
  /** The lengths to which the file was truncated, with the steps. */
  cuts: { at_step: number; length: number }[];
  /** For each completed sync: when it began, and when it ended. */
  syncs: { begun: number; ended: number }[];
}

/** How much of the unsynced data a cut leaves. */
type Fate = 'nothing' | 'everything' | 'some pages' | 'torn pages';
export const FATES: readonly Fate[] = ['nothing', 'everything', 'some pages', 'torn pages'];

/** Encodes a note that the test appends to the record. */
export function encodeNote(text: string): Buffer {
  const bytes = Buffer.from(text);
  const note = Buffer.alloc(HEAD_BYTES + bytes.length);
  note.writeUInt32LE(note.length - 4);
  note[4] = NOTED;
  bytes.copy(note, HEAD_BYTES);
  return note;
}

export class PowerRecord {
  readonly #steps: readonly Step[];
  readonly #folder: string;
  /** The file of each step. */
  readonly #files: (DiskFile | null)[] = [];

  /** @param folder whose files were recorded */
  constructor(path: string, folder: string) {
    this.#steps = readSteps(readFileSync(path));
    this.#folder = folder;
    this.#follow();
  }

  get length(): number {
    return this.#steps.length;
  }

  /** The test's notes before a step, in order. */
  *notes(before: number): Generator<{ step: number; text: string }> {
    for (const [step, { operation, bytes }] of this.#steps.slice(0, before).entries())
      if (operation === NOTED) yield { step, text: bytes.toString() };
  }

  /** The steps, before a given step, at which syncs of a file with this name ended. */
  syncsOf(name: string, before: number): number[] {
    const path = join(this.#folder, name);
    const ends: number[] = [];
    const files = new Set<DiskFile>();
    for (let step = 0; step < before; step++) {
      const file = this.#files[step];
      if (this.#steps[step]!.operation === OPENED && this.#steps[step]!.path === path && file)
        files.add(file);
      if (this.#steps[step]!.operation === SYNC_ENDED && file && files.has(file)) ends.push(step);
    }
    return ends;
  }

  /**
   * Finds the file of each step by its inode number. The number may belong to another file after its file was removed.
   */
  #follow(): void {
    const names = new Map<string, DiskFile>();
    const inodes = new Map<bigint, DiskFile>();
    const begun = new Map<bigint, number>();
    for (const [step, { operation, is_synced, inode, number, path, bytes }] of this.#steps.entries()) {
      let file: DiskFile | null = inodes.get(inode) ?? null;
      if (operation === OPENED) {
        file = names.get(path) ?? { writes: [], cuts: [], syncs: [] };
        names.set(path, file);
        inodes.set(inode, file);
        if (number === 1n) file.cuts.push({ at_step: step, length: 0 });
      } else if (operation === WRITTEN && file !== null) {
        file.writes.push({ at_step: step, offset: Number(number), bytes });
        if (is_synced) file.syncs.push({ begun: step + 1, ended: step + 1 });
      } else if (operation === TRUNCATED) file?.cuts.push({ at_step: step, length: Number(number) });
      else if (operation === SYNC_BEGUN) begun.set(number, step);
      else if (operation === SYNC_ENDED) file?.syncs.push({ begun: begun.get(number)!, ended: step });
      else moveNames(names, operation, path, bytes.toString());
      this.#files.push(file);
    }
  }

  /**
   * Writes a state that a cut at a step could leave into a folder.
   * @param pick gives a whole number from 0 to below `end`
   */
  build(cut: number, fate: Fate, into: string, pick: (end: number) => number): void {
    rmSync(into, { recursive: true, force: true });
    mkdirSync(into, { recursive: true, mode: 0o700 });
    const lastSync = this.#findLastSync(cut);
    // Names reach the disk in order, and each sync completes them.
    const named =
      fate === 'nothing' ? lastSync : fate === 'everything' ? cut : lastSync + pick(cut - lastSync + 1);
    for (const [path, file] of this.#listNames(named)) {
      const target = join(into, relative(this.#folder, path));
      if (file === null) {
        mkdirSync(target, { recursive: true });
        continue;
      }
      mkdirSync(dirname(target), { recursive: true });
      writeFileSync(target, contentOf(file, cut, named, fate, pick));
    }
  }

  /** The step at which the last completed sync began. */
  #findLastSync(cut: number): number {
    const begun = new Map<bigint, number>();
    let last = 0;
    for (const [step, { operation, number, is_synced }] of this.#steps.slice(0, cut).entries()) {
      if (operation === SYNC_BEGUN) begun.set(number, step);
      else if (operation === SYNC_ENDED) last = Math.max(last, begun.get(number)!);
      else if (operation === WRITTEN && is_synced) last = step;
    }
    return last;
  }

  #listNames(before: number): Map<string, DiskFile | null> {
    const names = new Map<string, DiskFile | null>();
    for (const [step, { operation, path, bytes }] of this.#steps.slice(0, before).entries()) {
      if (operation === OPENED) names.set(path, this.#files[step]!);
      else if (operation === FOLDER_MADE) names.set(path, null);
      else moveNames(names, operation, path, bytes.toString());
    }
    return names;
  }
}

function moveNames<Value>(names: Map<string, Value>, operation: number, path: string, to: string): void {
  if (operation === UNLINKED || operation === FOLDER_REMOVED) names.delete(path);
  else if (operation === LINKED && names.has(path)) names.set(to, names.get(path)!);
  else if (operation === RENAMED) {
    for (const [name, value] of [...names]) {
      if (name !== path && !name.startsWith(`${path}/`)) continue;
      names.delete(name);
      names.set(to + name.slice(path.length), value);
    }
  }
}

/** The bytes of a file after a cut. */
function contentOf(
  { writes, cuts, syncs }: DiskFile,
  cut: number,
  named: number,
  fate: Fate,
  pick: (end: number) => number,
): Buffer {
  let synced = 0;
  for (const { begun, ended } of syncs) if (ended <= cut && begun > synced) synced = begun;
  const done = writes.filter(({ at_step }) => at_step < cut);
  const lengths = cuts.filter(({ at_step }) => at_step < Math.max(named, synced));
  const sure = apply(Buffer.alloc(0), done, lengths, 0, synced);
  if (fate === 'nothing' || !done.some(({ at_step }) => at_step >= synced)) return sure;
  const whole = apply(sure, done, lengths, synced, cut);
  if (fate === 'everything') return whole;
  const pending = new Map<number, Write[]>();
  for (const write of done) {
    if (write.at_step < synced) continue;
    const last = write.offset + write.bytes.length - 1;
    for (let page = Math.floor(write.offset / PAGE_BYTES); page * PAGE_BYTES <= last; page++)
      pending.set(page, [...(pending.get(page) ?? []), write]);
  }
  const mixed = Buffer.alloc(whole.length);
  whole.copy(mixed);
  for (const [page, touching] of pending) {
    const at = page * PAGE_BYTES;
    const moments = [synced, ...touching.map(({ at_step }) => at_step + 1)];
    const kept = pageOf(sure, touching, at, moments[pick(moments.length)]!);
    if (fate === 'torn pages') {
      const other = pageOf(sure, touching, at, moments[pick(moments.length)]!);
      other.copy(kept, 0, 0, pick(PAGE_BYTES / SECTOR_BYTES + 1) * SECTOR_BYTES);
    }
    kept.copy(mixed, at);
  }
  return mixed;
}

/** The content of a page before a step. */
function pageOf(sure: Buffer, touching: readonly Write[], at: number, before: number): Buffer {
  const page = Buffer.alloc(PAGE_BYTES);
  sure.subarray(at, at + PAGE_BYTES).copy(page);
  for (const { at_step, offset, bytes } of touching) {
    if (at_step >= before) continue;
    const from = Math.max(0, at - offset);
    bytes.copy(page, Math.max(0, offset - at), from, Math.min(bytes.length, at + PAGE_BYTES - offset));
  }
  return page;
}

/** The file after the writes and truncations between two steps. */
function apply(
  start: Buffer,
  writes: readonly Write[],
  cuts: readonly { at_step: number; length: number }[],
  from: number,
  before: number,
): Buffer {
  const within = ({ at_step }: { at_step: number }) => at_step >= from && at_step < before;
  const changes = [...writes.filter(within), ...cuts.filter(within)].sort((a, b) => a.at_step - b.at_step);
  let room = Buffer.alloc(
    Math.max(start.length, ...writes.map((write) => write.offset + write.bytes.length), 0),
  );
  start.copy(room);
  let length = start.length;
  for (const change of changes) {
    if ('length' in change) {
      if (change.length > room.length)
        room = Buffer.concat([room, Buffer.alloc(change.length - room.length)]);
      room.fill(0, Math.min(length, change.length), room.length);
      length = change.length;
    } else {
      change.bytes.copy(room, change.offset);
      length = Math.max(length, change.offset + change.bytes.length);
    }
  }
  return room.subarray(0, length);
}

function readSteps(record: Buffer): Step[] {
  const steps: Step[] = [];
  for (let at = 0; at + HEAD_BYTES <= record.length; ) {
    const end = at + 4 + record.readUInt32LE(at);
    const path_end = at + HEAD_BYTES + record.readUInt16LE(at + 6);
    steps.push({
      operation: record[at + 4]!,
      is_synced: (record[at + 5]! & IS_SYNCED) !== 0,
      inode: record.readBigUInt64LE(at + 8),
      number: record.readBigUInt64LE(at + 16),
      path: record.toString('utf8', at + HEAD_BYTES, path_end),
      bytes: record.subarray(path_end, end),
    });
    at = end;
  }
  return steps;
}
