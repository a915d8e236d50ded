/** Capture databases whose sealed files go to a bucket, and checks of its content. Test thread. */
import { readdirSync } from 'node:fs';
import { join, relative } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect } from 'vitest';
import { decodeExchange } from '../../src/providers/decode.ts';
import { CaptureLog, type CaptureLogOptions } from '../../src/storage/capture/log.ts';
import { readNote } from '../../src/storage/offload/offload-note.ts';
import type { Filled } from './erasing.ts';

export interface Offloaded extends Filled {
  /** The folder that serves as the bucket. */
  place: string;
}

type Keep = NonNullable<CaptureLogOptions['bucket']>['keep'];
export const AT_ONCE: Keep = { age_ms: -60_000 };
/** The exchanges of the tests are some years old. */
export const LATER: Keep = { age_ms: 1e13 };

export function open({ path, key, place }: Offloaded, keep: Keep, fault?: CaptureLogOptions['fault']) {
  return CaptureLog.open({
    path,
    redact: false,
    data_key: key,
    decode: decodeExchange,
    has_text_index: true,
    bucket: { place: pathToFileURL(place).href, keep },
    ...(fault === undefined ? {} : { fault }),
  });
}

/** Sends sealed files, and removes blocks from the disk that may leave it. */
export async function passAll(log: CaptureLog): Promise<void> {
  while ((await log.tidySome(decodeExchange, 50)).done > 0);
  await log.offloadSome();
}

/** The names of the objects in the bucket. */
export function listObjects(place: string): string[] {
  return readdirSync(place, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(place, join(entry.parentPath, entry.name)))
    .sort();
}

/** Whether the bucket has exactly the objects that the note lists. */
export function expectNoOthers({ path, place }: Offloaded): void {
  const { files, gateway, removing } = readNote(path)!;
  expect(removing).toEqual([]);
  const folders = new Set(files.map(({ folder }) => folder));
  const own = [`captures/${gateway}/manifest`, `gateways/${gateway}`];
  for (const name of listObjects(place))
    if (!own.includes(name)) expect(folders).toContain(name.slice(0, name.lastIndexOf('/')));
}
