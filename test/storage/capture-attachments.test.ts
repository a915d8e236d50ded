/** Images and documents are stored once and put back byte for byte. */
import { createHash, randomBytes } from 'node:crypto';
import { readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it, onTestFinished } from 'vitest';
import { AttachmentStore } from '../../src/storage/capture/attachments.ts';
import { CaptureLog } from '../../src/storage/capture/log.ts';
import { CaptureReader } from '../../src/storage/capture/reader.ts';
import { makeExchange } from './captured.ts';
import { makeFolder } from './folder.ts';

async function openLog(folder: string, redact: boolean): Promise<CaptureLog> {
  const log = await CaptureLog.open({ path: join(folder, 'capture.mdb'), redact });
  onTestFinished(() => log.close());
  return log;
}

function listFiles(folder: string): string[] {
  try {
    return readdirSync(join(folder, 'capture.mdb.files')).sort();
  } catch {
    return [];
  }
}

const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

describe('attachments', () => {
  for (const redact of [true, false]) {
    it(`are stored once in all their forms, redact ${redact}`, async () => {
      const folder = makeFolder();
      const log = await openLog(folder, redact);
      const image = randomBytes(30_001);
      const b64 = image.toString('base64');
      const bodies = [
        `{"source":{"type":"base64","media_type":"image/png","data":"${b64}"}}`,
        `{"image_url":{"url":"data:image/png;base64,${b64}"}}`,
        `{"image":{"source":{"bytes": "${b64}"}}}`,
        `{"data":[{"b64_json":"${b64}"}]}`,
        `data: {"type":"image","b64_json":"${b64.replace(/=+$/, '')}"}\n\n`,
        `{"inlineData":{"mimeType":"image/png","data":"${image.toString('base64url')}"}}`,
        `{"data":"${b64.replaceAll('/', '\\/')}"}`,
        `{"arguments":"{\\"data\\":\\"${b64}\\"}"}`,
        `{"data":"${b64}"} and again {"data":"${b64}"}`,
      ].map((text) => Buffer.from(text));
      for (const body of bodies)
        await log.append([makeExchange({ run_id: 'r', request_body: body, response_body: body })]);
      await log.append([
        makeExchange({ response_headers: ['content-type', 'image/png'], response_body: image }),
      ]);
      await log.flush();
      expect(listFiles(folder)).toEqual([sha256(image)]);
      // The bodies have 800 KB. The bound includes pages that checkpoints keep; checkpoints between the commits keep
      // more.
      expect(log.stats().bytes).toBeLessThan(300_000);
      const reader = CaptureReader.open(log.stats().path);
      for (const [i, body] of bodies.entries()) {
        expect(Buffer.compare(reader.body(i + 1, 'request')!, body), `request ${i}`).toBe(0);
        expect(Buffer.compare(reader.body(i + 1, 'response')!, body), `response ${i}`).toBe(0);
      }
      expect(Buffer.compare(reader.body(bodies.length + 1, 'response')!, image)).toBe(0);
      // The attachments are found from a sealed file as well.
      const { sealed } = await log.rotate();
      const old = CaptureReader.open(sealed!);
      expect(Buffer.compare(old.body(1, 'request')!, bodies[0]!)).toBe(0);
      rmSync(join(folder, 'capture.mdb.files', sha256(image)));
      expect(() => old.body(2, 'request')).toThrow(/attachment .* is missing/);
      await old.close();
      await reader.close();
    });
  }

  it('do not include small parts, other values, or parts that would change', async () => {
    const folder = makeFolder();
    const log = await openLog(folder, true);
    const long = randomBytes(3_000).toString('base64');
    const bodies = [
      `{"data":"${randomBytes(1_000).toString('base64')}"}`,
      `{"type":"redacted_thinking","data":"${long}"}`,
      `{"signature":"${long}"}`,
      // The last character has bits that an encoder never sets.
      `{"data":"${randomBytes(3_001).toString('base64').slice(0, -3)}B=="}`,
      `{"data":"${long}`,
      // The beginning of a placeholder.
      `{"data":"${long}","x":"\0@svc-file:s"}`,
    ].map((text) => Buffer.from(text));
    await log.append(bodies.map((body) => makeExchange({ request_body: body })));
    expect(listFiles(folder)).toEqual([]);
    const reader = CaptureReader.open(log.stats().path);
    for (const [i, body] of bodies.entries())
      expect(Buffer.compare(reader.body(i + 1, 'request')!, body)).toBe(0);
    await reader.close();
  });

  it('are returned in any conversation that grows, changes or shrinks', { tags: 'long' }, async () => {
    const images = Array.from({ length: 4 }, (_, i) => randomBytes(1_024 + i * 5_000));
    const part = fc.oneof(
      fc.constantFrom(...images).map((image) => `{"type":"image","data":"${image.toString('base64')}"}`),
      fc.string({ maxLength: 400 }).map((text) => JSON.stringify({ text })),
      fc.nat(12_000).map((size) => JSON.stringify({ text: 'long '.repeat(size / 5) })),
    );
    const conversation = fc.array(part, { minLength: 1, maxLength: 12 });
    await fc.assert(
      fc.asyncProperty(conversation, fc.array(fc.tuple(fc.nat(12), part)), async (start, edits) => {
        const folder = makeFolder();
        const log = await CaptureLog.open({ path: join(folder, 'capture.mdb'), redact: true });
        const bodies: Buffer[] = [Buffer.from(`[${start.join(',')}]`)];
        const parts = [...start];
        for (const [at, added] of edits) {
          parts.splice(at, at % 3 === 0 ? 1 : 0, added);
          bodies.push(Buffer.from(`[${parts.join(',')}]`));
        }
        for (const body of bodies) await log.append([makeExchange({ run_id: 'r', request_body: body })]);
        await log.close();
        const reader = CaptureReader.open(log.stats().path);
        for (const [i, body] of bodies.entries()) {
          expect(Buffer.compare(reader.body(i + 1, 'request')!, body)).toBe(0);
        }
        await reader.close();
        rmSync(folder, { recursive: true });
      }),
      { numRuns: 40 },
    );
  });

  it('are written again after a failed sync; the sync keeps failing if one of them has changed', async () => {
    const folder = makeFolder();
    const store = new AttachmentStore(folder);
    const contents = [randomBytes(5_000), randomBytes(6_000)];
    const paths = contents.map((content) => join(folder, sha256(content)));
    for (const content of contents) store.save(sha256(content), content);
    const inodes = () => paths.map((path) => statSync(path).ino);
    renameSync(paths[1]!, join(folder, 'elsewhere'));
    await expect(store.sync()).rejects.toThrow('ENOENT');
    writeFileSync(paths[1]!, contents[0]!);
    await expect(store.sync()).rejects.toThrow('is damaged');
    await expect(store.sync()).rejects.toThrow('is damaged');
    renameSync(join(folder, 'elsewhere'), paths[1]!);
    const before = inodes();
    await store.sync();
    for (const [i, ino] of inodes().entries()) expect(ino).not.toBe(before[i]);
    expect(paths.map((path) => readFileSync(path))).toEqual(contents);
    expect(readdirSync(folder)).toHaveLength(2);
    const synced = inodes();
    await store.sync();
    expect(inodes()).toEqual(synced);
  });
});
