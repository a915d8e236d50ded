/**
 * deploy/compose-scale.yaml refers only to existing things, and starts its services in an order that works. Test
 * thread.
 */
import { statSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { VARIABLE_DEFAULTS } from '../../src/config.ts';
import { readBucketPlace } from '../../src/storage/bucket/bucket-place.ts';
import { readDatabaseAddress } from '../../src/storage/postgres/address.ts';
import { readCompose, readHead } from './compose-topology.ts';

const FILE = 'compose-scale.yaml';
const { services, secrets, volumes } = readCompose(FILE);
const own = Object.values(services).filter(
  ({ image, command }) => image === 'understudy' && command !== undefined,
);

it('the services of compose-scale.yaml name only variables, secrets, volumes and files that exist', () => {
  expect(own).toHaveLength(5);
  for (const service of own)
    for (const name of Object.keys(service.environment ?? {}))
      expect(VARIABLE_DEFAULTS.has(name), name).toBe(true);
  for (const service of Object.values(services)) {
    for (const name of service.secrets ?? []) expect(secrets).toHaveProperty(name);
    for (const mount of service.volumes ?? []) {
      const from = mount.split(':')[0]!;
      if (!from.startsWith('.')) expect(volumes).toHaveProperty(from);
      else
        expect(statSync(fileURLToPath(new URL(`../../deploy/${from}`, import.meta.url))).isFile()).toBe(true);
    }
    for (const name of Object.keys(service.depends_on ?? {})) expect(services).toHaveProperty(name);
  }
});

it('no two services share a volume, except the S3 server and the service that creates its bucket', () => {
  const mounted = Object.entries(services).flatMap(([name, service]) =>
    name === 'bucket' ? [] : (service.volumes ?? []).filter((mount) => !mount.startsWith('.')),
  );
  expect(new Set(mounted.map((mount) => mount.split(':')[0])).size).toBe(mounted.length);
});

it('API boxes and gateways use the same bucket and key, and the image’s addresses reach the services', () => {
  const places = own.flatMap(({ environment: { CAPTURE_READ_URL, CAPTURE_BUCKET_URL } = {} }) =>
    [CAPTURE_READ_URL, CAPTURE_BUCKET_URL].filter((place) => place !== undefined),
  );
  expect(places).toHaveLength(4);
  expect(new Set(places).size).toBe(1);
  expect(services).toHaveProperty(new URL(readBucketPlace(places[0]!).endpoint!).hostname);
  const addresses = readHead(FILE);
  expect(Object.keys(addresses).sort()).toEqual(['owner.env', 'understudy.env']);
  for (const address of Object.values(addresses))
    expect(services).toHaveProperty(String(readDatabaseAddress(address).client.host));
});

it('images of other projects are pinned by their digests', () => {
  for (const { image } of Object.values(services))
    if (image !== 'understudy') expect(image).toMatch(/@sha256:[0-9a-f]{64}$/);
});

it('boxes start when tables and rights exist, and have time for the notice of their stop before Docker kills them', () => {
  expect(services['api-1']!.depends_on!.rights).toEqual({ condition: 'service_completed_successfully' });
  expect(services.rights!.depends_on!.migrate).toEqual({ condition: 'service_completed_successfully' });
  expect(services.migrate!.depends_on!.postgres).toEqual({ condition: 'service_healthy' });
});
