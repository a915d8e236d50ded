/** Under which host names this service answers requests without a credential. Pure. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { AllowedHosts } from '../../src/http/allowed-hosts.ts';

const hosts = new AllowedHosts(['app.example.com', 'dotted.example.org.']);

describe('a host name', () => {
  it.each([
    'localhost',
    'localhost:8787',
    'LOCALHOST',
    '127.0.0.1:8000',
    '192.0.2.7',
    '[::1]:8787',
    '[fe80::1%25eth0]:8787',
    'understudy:8787',
    'my_service:8787',
    'understudy.local',
    'understudy.default.svc.cluster.local:80',
    'metadata.google.internal',
    'box.home.arpa',
    'app.example.com',
    'App.Example.com:443',
    'app.example.com.',
    'dotted.example.org',
    // A name with a single label is answered, even a label that is also an allowed suffix.
    'local',
    '',
    undefined,
  ])('%j is answered', (host) => {
    expect(hosts.allows(host)).toBe(true);
  });

  it.each([
    'evil.example.com',
    'evil.example.com:8787',
    'app.example.com.evil.example',
    'notapp.example.com',
    'localhost.evil.example',
    '127.0.0.1.evil.example',
    '127.0.0.1.nip.io:8787',
    'app.example.com, evil.example',
    '[::1.evil.example]',
    '[::1]evil.example',
    'evil.example@localhost',
    'internal.evil.example',
  ])('%j is not answered', (host) => {
    expect(hosts.allows(host)).toBe(false);
  });

  it('is always accepted if the list contains *', () => {
    expect(new AllowedHosts(['*']).allows('evil.example.com')).toBe(true);
  });

  it('gets the same result whatever names were checked before', () => {
    const name = fc.oneof(
      fc.constantFrom('localhost', 'app.example.com', 'evil.example.com', '127.0.0.1', '[::1]'),
      fc.domain(),
      fc.string({ maxLength: 400 }),
    );
    fc.assert(
      fc.property(fc.array(name, { minLength: 1, maxLength: 200 }), (asked) => {
        const used = new AllowedHosts(['app.example.com']);
        for (const host of [...asked, ...asked]) {
          expect(used.allows(host)).toBe(new AllowedHosts(['app.example.com']).allows(host));
        }
      }),
      { numRuns: 30 },
    );
  });
});
