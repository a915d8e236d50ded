/** Capture databases whose sealed files go to a bucket, and checks of its content. Test thread. */
import { existsSync, readdirSync, utimesSync } from 'node:fs';
import { join, relative } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect } from 'vitest';
import { decodeExchange } from '../../src/providers/decode.ts';
import { noteTouching } from '../../src/storage/capture/attachment-ages.ts';
import { CaptureLog, type CaptureLogOptions } from '../../src/storage/capture/log.ts';
import { readNote } from '../../src/storage/offload/offload-note.ts';
import { makeExchange } from './captured.ts';
import type { Filled } from './erasing.ts';

export interface Offloaded extends Filled {
  /** The folder that serves as the bucket. */
  place: string;
}

type Keep = NonNullable<CaptureLogOptions['bucket']>['keep'];
export const AT_ONCE: Keep = { age_ms: -60_000 };
/**
 * Keeps blocks on the local disk for so long that those of the tests' exchanges, which are some years old, stay
 * there.
 */
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

/** Does all postponed work, then sends sealed files, and removes blocks that may leave the disk. */
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

/**
 * Expects that no object waits for its removal, and that the bucket has only the gateway's own objects and objects in
 * folders that the note lists.
 */
export function expectNoOthers({ path, place }: Offloaded): void {
  const { files, gateway, removing } = readNote(path)!;
  expect(removing).toEqual([]);
  const folders = new Set(files.map(({ folder }) => folder));
  const own = [`captures/${gateway}/manifest`, `gateways/${gateway}`];
  for (const name of listObjects(place))
    if (!own.includes(name)) expect(folders).toContain(name.slice(0, name.lastIndexOf('/')));
}

/** A request with an image in the form that providers accept. */
function withImage(text: string, image: Buffer): Buffer {
  const source = { type: 'base64', media_type: 'image/png', data: image.toString('base64') };
  return Buffer.from(
    JSON.stringify({ model: 'm', messages: [{ role: 'user', content: [text, { type: 'image', source }] }] }),
  );
}

/**
 * Makes sealed files that refer to images, and a live file that refers to no image. The images are older than the
 * exchanges.
 * @param images by sealed file: run and image of each exchange
 */
export async function fillWithImages(
  { path, key }: Filled,
  images: readonly (readonly (readonly [run_id: string, image: Buffer])[])[],
): Promise<void> {
  const log = await CaptureLog.open({
    path,
    redact: false,
    data_key: key,
    decode: decodeExchange,
    has_text_index: true,
  });
  noteTouching(path, 0);
  for (const shown of images) {
    for (const [run_id, image] of shown)
      await log.append([makeExchange({ run_id, request_body: withImage(`words of ${run_id}`, image) })]);
    await log.rotate();
  }
  await log.append([makeExchange({ run_id: 'keep', request_body: Buffer.from('{"model":"m"}') })]);
  await log.close();
  for (const name of listAttachments(path))
    utimesSync(join(`${path}.files`, name), 1_700_000_000, 1_700_000_000);
}

/** The attachments on the local disk. */
export function listAttachments(path: string): string[] {
  return existsSync(`${path}.files`) ? readdirSync(`${path}.files`) : [];
}
