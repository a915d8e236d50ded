/**
 * A payment processor that never answers: the service's time limit for it, and the end of the process during the wait.
 */
import { createServer } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { expect, it, onTestFinished } from 'vitest';
import { ControlPlaneChild } from '../fixtures/control-plane.ts';

it('a silent payment processor: a request that waits for it gets a 503, and delays neither other requests nor the stop', async () => {
  const silent: Socket[] = [];
  const processor = createServer((request) => void silent.push(request.socket));
  onTestFinished(() => {
    processor.closeAllConnections();
    processor.close();
  });
  await new Promise<void>((resolve) => {
    processor.listen(0, '127.0.0.1', resolve);
  });
  await using api = new ControlPlaneChild({
    STRIPE_SECRET_KEY: 'sk_test_secret',
    STRIPE_API_BASE: `http://127.0.0.1:${(processor.address() as AddressInfo).port}`,
  });
  await api.start();
  const payer = await api.person('payer');
  const slow = api.call(payer.token, 'POST', '/billing/create-checkout-session?lookup_key=pro_monthly');
  await expect.poll(() => silent.length).toBeGreaterThan(0);
  expect((await api.call(payer.token, 'GET', '/billing/subscription')).body.plan).toBe('free');
  const ended = api.stop();
  expect((await slow).status).toBe(503);
  expect(await ended).toBe(0);
});
