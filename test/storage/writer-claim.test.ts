/** One writer per database: which process holds the claim, which is refused, and which waits. */
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
  it('has one holder, and is free again once released', async () => {
    const path = join(makeFolder(), 'capture.mdb');
    const first = await claim(path);
    const refused = claim(path, { patience_ms: 60_000 });
    await expect(refused).rejects.toThrow(WriterClaimedError);
    await expect(refused).rejects.toThrow(`${path}: process ${process.pid} is writing to this database`);
    await first.release();
    await claim(path);
  });

  it('is the same for a path through a link or with `..`, and differs between files', async () => {
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

  it('is waited for while its holder is ending', async () => {
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

  it('is waited for until a holder that is ending and does not answer has ended', async () => {
    const path = join(makeFolder(), 'capture.mdb');
    const begun = Promise.withResolvers<void>();
    const dropped = Promise.withResolvers<void>();
    let asked = 0;
    // Simulates a process that is ending, and then closes its connections.
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

  it('is refused while its holder does not answer', { tags: 'long' }, async () => {
    const path = join(makeFolder(), 'capture.mdb');
    const holder = createServer((socket) => void socket.on('error', () => {}).destroy());
    await new Promise<void>((resolve) => holder.listen(claimAddress(path)!, resolve));
    onTestFinished(() => void holder.close());
    await expect(claim(path, { patience_ms: 60_000 })).rejects.toThrow(
      'another process is writing to this database',
    );
  });

  it('is not waited for after the patience is over or after an abort', async () => {
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

  it('is not taken by a start that was already given up', async () => {
    const path = join(makeFolder(), 'capture.mdb');
    await expect(claim(path, { signal: AbortSignal.abort() })).rejects.toThrow(/abort/i);
    await claim(path);
  });

  it('does not delay a start if its folder does not exist', async () => {
    await claim('/proc/nowhere/capture.mdb');
    await claim('/proc/nowhere/capture.mdb');
  });
});
