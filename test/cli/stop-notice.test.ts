/** After SIGTERM every server thread reports the stop on `/ready`, and still answers other requests. Own process. */
import { expect, it, onTestFinished } from 'vitest';
import { WholeService } from '../fixtures/whole-service.ts';
import { makeFolder } from '../storage/folder.ts';

it('a service reports its stop for STOP_NOTICE_MS, serves requests meanwhile, and ends', {
  tags: 'long',
}, async () => {
  const service = new WholeService(makeFolder(), { STOP_NOTICE_MS: '3000', SERVER_THREADS: '2' });
  onTestFinished(() => service[Symbol.asyncDispose]());
  await service.start();
  // Each request has its own connection, so that both threads get requests.
  const ask = async (url: string) => {
    const response = await fetch(url, { headers: { connection: 'close' } });
    return [response.status, await response.text()] as const;
  };
  const ready = [`${service.api}/ready`, `${service.gateway}/__gw/ready`];
  for (const url of ready) expect((await ask(url))[0]).toBe(200);
  const ended = service.stop();
  for (const url of ready) {
    await expect.poll(() => ask(url)).toEqual([503, expect.stringContaining('the service is stopping')]);
    for (let at = 0; at < 8; at++) expect((await ask(url))[0]).toBe(503);
  }
  expect((await ask(`${service.api}/health`))[0]).toBe(200);
  await service.capture('run-a', { messages: [{ role: 'user', content: 'after the signal' }] });
  expect(await ended).toBe(0);
  expect(service.stderr).toContain('not ready for 3000 ms');
  expect(await service.run('inspect', '--run', 'run-a')).toContain('after the signal');
});
