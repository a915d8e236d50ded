/**
 * `understudy student share` and `follow`: one directory's student in the directories of several gateways, through a place
 * outside the machine. Main thread of the command line.
 */

import { setTimeout as delay } from 'node:timers/promises';
import type { Config } from '../config.ts';
import { openDataKey } from '../std/data-key.ts';
import { describeRefusal } from '../std/file-place.ts';
import { StoreError } from '../storage/bucket/object-store.ts';
import { openStore } from '../storage/bucket/open-store.ts';
import { SealedObjects } from '../storage/bucket/sealed-objects.ts';
import { readSourceId } from '../storage/source-id.ts';
import { SharedStudentError, StudentFollowing, StudentSharing } from '../student/shared-student.ts';
import type { CliIo } from './io.ts';
import { makeHarmlessLine } from './terminal-text.ts';

/** Interval at which each side checks for news. A gateway checks its directory every three seconds. */
const LOOK_MS = 2_000;
/** Interval at which a lasting failure is reported again. */
const TELL_AGAIN_MS = 600_000;

interface Sharing {
  action: 'share' | 'follow';
  directory: string;
  place: string;
  is_json: boolean;
}

/**
 * Runs until SIGTERM or SIGINT.
 * @throws the error of the first check; later errors are reported, and the check is repeated
 */
export async function runSharing(
  { action, directory, place, is_json }: Sharing,
  config: Pick<Config, 'data_dir' | 'data_key'>,
  io: CliIo,
): Promise<void> {
  io.outliveReader?.();
  const stopping = new AbortController();
  const stop = (): void => stopping.abort();
  process.on('SIGTERM', stop);
  process.on('SIGINT', stop);
  const store = await openStore(place);
  try {
    const target = { store, objects: new SealedObjects(openDataKey(config.data_key)) };
    const look =
      action === 'share'
        ? makeShare(new StudentSharing(directory, target, readSourceId(config.data_dir)))
        : makeFollow(new StudentFollowing(directory, target));
    await repeat(look, async (words) => tell(words, is_json, io), io, stopping.signal);
  } finally {
    process.off('SIGTERM', stop);
    process.off('SIGINT', stop);
    store.close();
  }
}

/** Checks once for changes. @returns what has changed; null: nothing */
type Look = () => Promise<string | null>;

function makeShare(sharing: StudentSharing): Look {
  return async () => ((await sharing.look()) ? 'shared' : null);
}

function makeFollow(following: StudentFollowing): Look {
  return () => following.look();
}

async function tell(what: string, isJson: boolean, io: CliIo): Promise<void> {
  const at = new Date().toISOString();
  const words: Record<string, string> = {
    shared: 'the student and the orders are shared',
    student: 'another version serves, or no version',
    orders: 'other orders are in force',
  };
  await io.out(isJson ? `${JSON.stringify({ at, new: what })}\n` : `${at} ${words[what]}\n`);
}

async function repeat(
  look: Look,
  onNews: (what: string) => Promise<void>,
  io: CliIo,
  stop: AbortSignal,
): Promise<void> {
  let toldMs: number | null = null;
  for (let isFirst = true; !stop.aborted; isFirst = false) {
    try {
      const news = await look();
      if (news !== null) await onNews(news);
      if (toldMs !== null) io.err('understudy: sharing the student works again\n');
      toldMs = null;
    } catch (thrown) {
      if (isFirst) throw thrown;
      const nowMs = performance.now();
      if (toldMs === null || nowMs - toldMs >= TELL_AGAIN_MS) {
        toldMs = nowMs;
        io.err(`understudy: ${makeHarmlessLine(describeFailure(thrown))}; the command tries again\n`);
      }
    }
    await delay(LOOK_MS, undefined, { signal: stop }).catch(() => undefined);
  }
}

/** Whether the message is one line for the operator. */
export function isSharingFailure(thrown: unknown): thrown is Error {
  return thrown instanceof SharedStudentError || thrown instanceof StoreError;
}

function describeFailure(thrown: unknown): string {
  return describeRefusal(thrown) ?? (thrown instanceof Error ? thrown.message : String(thrown));
}
