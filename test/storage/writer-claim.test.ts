/** One writer per database: who holds the claim, who is refused, who waits. */
import { mkdirSync, symlinkSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import {
  claimAddress,
  claimWriter,
  type WriterClaim,
  WriterClaimedError,
  type WriterClaimOptions,
} from '../../src/storage/writer-claim.ts';
import { makeFolder } from './folder.ts';

async function claim(path: string, options: Partial<WriterClaimOptions> = {}): Promise<WriterClaim> {
  const taken = await claimWriter(path, { patience_ms: 0, ...options });
  onTestFinished(() => taken.release());
  return taken;
}

describe('the claim on a database', () => {
  it('is held by one, and free again once released', async () => {
    const path = join(makeFolder(), 'capture.mdb');
    const first = await claim(path);
    const refused = claim(path, { patience_ms: 60_000 });
    await expect(refused).rejects.toThrow(WriterClaimedError);
    await expect(refused).rejects.toThrow(`${path}: process ${process.pid} is writing to it`);
    await first.release();
    await claim(path);
  });

  it('is the same however the path is written, and another one for another file', async () => {
    const folder = join(makeFolder(), 'not', 'there', 'yet');
    const path = join(folder, 'capture.mdb');
    await claim(path);
    await claim(join(folder, 'openai.mdb'));
    mkdirSync(join(folder, 'below'));
    const link = join(makeFolder(), 'link');
    symlinkSync(folder, link);
    for (const same of [`${folder}/below/../capture.mdb`, join(link, 'capture.mdb')])
      await expect(claim(same)).rejects.toThrow(WriterClaimedError);
  });

  it('is waited for when its holder is ending', async () => {
    const path = join(makeFolder(), 'capture.mdb');
    const first = await claim(path);
    first.announceEnd();
    const waits: string[] = [];
    const begun = Promise.withResolvers<void>();
    const second = claim(path, {
      patience_ms: 60_000,
      onWait: (holder) => {
        waits.push(holder);
        begun.resolve();
      },
    });
    await begun.promise;
    await first.release();
    await second;
    expect(waits).toEqual([`process ${process.pid}`]);
  });

  it('is waited for while its holder ends without another word, until that is gone', async () => {
    const path = join(makeFolder(), 'capture.mdb');
    const begun = Promise.withResolvers<void>();
    const dropped = Promise.withResolvers<void>();
    let asked = 0;
    // Like a process that is ending, and then drops its connections.
    const holder = createServer((socket) => {
      socket.on('error', () => {});
      if (++asked === 1) socket.end('42 ending\n');
      else socket.destroy();
      if (asked === 3) dropped.resolve();
    });
    await new Promise<void>((resolve) => holder.listen(claimAddress(path)!, resolve));
    const waits: string[] = [];
    const second = claim(path, {
      patience_ms: 60_000,
      onWait: (name) => {
        waits.push(name);
        begun.resolve();
      },
    });
    await begun.promise;
    await dropped.promise;
    await new Promise((resolve) => holder.close(resolve));
    await second;
    expect(waits).toEqual(['process 42']);
  });

  it('is not had while its holder says nothing', { tags: 'long' }, async () => {
    const path = join(makeFolder(), 'capture.mdb');
    const holder = createServer((socket) => void socket.on('error', () => {}).destroy());
    await new Promise<void>((resolve) => holder.listen(claimAddress(path)!, resolve));
    onTestFinished(() => void holder.close());
    await expect(claim(path, { patience_ms: 60_000 })).rejects.toThrow('another process is writing to it');
  });

  it('is not waited for longer than patience lasts, nor than it is asked to', async () => {
    const path = join(makeFolder(), 'capture.mdb');
    const first = await claim(path);
    first.announceEnd();
    await expect(claim(path)).rejects.toThrow(WriterClaimedError);
    const givingUp = new AbortController();
    const waiting = claim(path, {
      patience_ms: 60_000,
      signal: givingUp.signal,
      onWait: () => givingUp.abort(),
    });
    await expect(waiting).rejects.toThrow(/abort/i);
  });

  it('is not taken by a start that was given up before', async () => {
    const path = join(makeFolder(), 'capture.mdb');
    await expect(claim(path, { signal: AbortSignal.abort() })).rejects.toThrow(/abort/i);
    await claim(path);
  });

  it('keeps no start back where there is no folder to name it after', async () => {
    await claim('/proc/nowhere/capture.mdb');
    await claim('/proc/nowhere/capture.mdb');
  });
});
