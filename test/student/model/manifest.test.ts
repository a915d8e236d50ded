/** Which JSON is accepted as a student's manifest. */
import { describe, expect, it } from 'vitest';
import { makeDraft } from '../../../bench/made-manifest.ts';
import { isManifestFault, isStudentEndpoint, readManifest } from '../../../src/student/model/manifest.ts';

const SHA = 'a'.repeat(64);
const whole = {
  format: 'svc_student_v1',
  version: 3,
  ...makeDraft(),
  files: { steps: { name: 'steps-0123456789abcdef.bin', bytes: 10, sha256: SHA } },
};

function read(over: Record<string, unknown>) {
  return readManifest(JSON.stringify({ ...whole, ...over }));
}

describe('a manifest', () => {
  it('is read as it was written', () => {
    expect(read({})).toEqual(whole);
  });

  it('may contain more than this version knows', () => {
    expect(read({ of_a_later_day: true })).toEqual(whole);
  });

  it.each([
    ['a newer format', { format: 'svc_student_v2' }, 'newer', 'has the format svc_student_v2'],
    ['another JSON file', { format: undefined }, 'foreign', "not a student's manifest"],
    ['another format altogether', { format: 'npm' }, 'foreign', "not a student's manifest"],
    ['no version', { version: undefined }, 'damaged', 'version: '],
    [
      'a threshold beyond 1',
      { coverage: { ...whole.coverage, threshold: 2 } },
      'damaged',
      'coverage.threshold: ',
    ],
    [
      'a threshold that is no number',
      { coverage: { ...whole.coverage, threshold: null } },
      'damaged',
      'coverage.threshold: ',
    ],
    ['an unknown student', { student: { kind: 'oracle' } }, 'damaged', 'student.kind: '],
    [
      'more errors than steps served',
      { measured: { ...whole.measured, errors: 31 } },
      'damaged',
      'measured: ',
    ],
    [
      'an error of nothing',
      { measured: { ...whole.measured, served: 0, errors: 0, in_a_row: { served: 0, errors: 0 } } },
      'damaged',
      'measured.error: ',
    ],
  ])('with %s is refused', (_, over, fault, words) => {
    const refused = read(over);
    expect(refused).toMatchObject({ fault });
    expect(isManifestFault(refused) && refused.words).toContain(words);
  });

  it.each([
    '../steps-0123456789abcdef.bin',
    '/etc/passwd',
    'steps-0123456789abcdef.bin/..',
    'manifest.json',
    '',
  ])('that names the file %j is refused', (name) => {
    expect(read({ files: { steps: { name, bytes: 1, sha256: SHA } } })).toMatchObject({
      fault: 'damaged',
    });
  });

  it('that is cut off is refused', () => {
    const text = JSON.stringify(whole);
    for (let length = 0; length < text.length; length += 7) {
      expect(readManifest(text.slice(0, length))).toMatchObject({ fault: 'damaged' });
    }
  });
});

describe('an endpoint', () => {
  it.each(['http://127.0.0.1:8001', 'https://models.example/cheap/v2'])('may be %s', (text) => {
    expect(isStudentEndpoint(text)).toBe(true);
  });

  it.each([
    'ftp://a',
    'models.example',
    'https://me:secret@models.example',
    'https://a/?key=1',
    'https://a/#x',
    'http://',
    `http://${'a'.repeat(3_000)}`,
  ])('may not be %s', (text) => {
    expect(isStudentEndpoint(text)).toBe(false);
  });
});
