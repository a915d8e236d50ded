/**
 * Remembers the last round of `loop` whose student could not be published. A round with the same golden runs, options
 * and published version would teach the same student, and could not publish it either. The round's own thread.
 */

import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { readVersion } from '../config.ts';

import { isObject } from '../student/model/json-values.ts';
import { readWholeJson, writeWhole } from '../student/whole-file.ts';
import type { Gate } from './taught-student.ts';

/** Maximum size of the file. A reason takes a few hundred bytes. */
const REFUSED_BYTES = 64 * 1024;

/** Everything that decides whether the round's student is published. */
interface JudgedRound {
  /** As `fingerprintMaterial` returns it. */
  fingerprint: string;
  gate: Gate;
  /** The version in service, with which the new student is compared; null if none serves. */
  before: { version: number; made_at: string } | null;
}

/**
 * Finds out whether the last refused round was equal to this one.
 * @param out the student's directory
 * @returns why the student of that round was not published; null if the last refused round was another, or is unknown
 */
export async function readRefused(out: string, round: JudgedRound): Promise<string | null> {
  // Without a readable file the round is made again.
  const kept = await readWholeJson(placeOf(out), REFUSED_BYTES).catch(() => null);
  if (!isObject(kept) || kept.round !== hashRound(round)) return null;
  return typeof kept.reason === 'string' ? kept.reason : null;
}

/**
 * Stores why a round's student was not published.
 * @param out the student's directory
 * @throws the system's error
 */
export async function writeRefused(out: string, round: JudgedRound, reason: string): Promise<void> {
  await writeWhole(placeOf(out), `${JSON.stringify({ round: hashRound(round), reason })}\n`);
}

function placeOf(out: string): string {
  return join(`${out}.work`, 'refused.json');
}

function hashRound({ fingerprint, gate, before }: JudgedRound): string {
  const { target_error, served_min, sticky } = gate;
  const serving = before === null ? null : [before.version, before.made_at];
  const parts = [readVersion(), fingerprint, target_error, served_min, sticky, serving];
  return createHash('sha256').update(JSON.stringify(parts)).digest('base64url');
}
