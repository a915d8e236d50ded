/** Which capture files are set aside after a failure, and how long the capture process waits before it starts again. */
import { describe, expect, it } from 'vitest';
import {
  CAPTURE_CALM_MS,
  CAPTURE_RESTART_MS,
  FaultHistory,
} from '../../actors/capture-writer/fault-history.ts';

describe('the history of faults', () => {
  it('blames the live file after two ends in a row, later also the file that is being sealed, and then neither', () => {
    const history = new FaultHistory();
    const dues: string[] = [];
    for (let end = 0; end < 8; end++) {
      history.noteEnd(true, end);
      dues.push(history.due);
      history.noteOpened();
    }
    expect(dues).toEqual(['none', 'live', 'none', 'all', 'none', 'none', 'none', 'none']);
  });

  it('can blame any number of files if each stored something before its damage', () => {
    const history = new FaultHistory();
    const dues: string[] = [];
    for (let file = 0; file < 4; file++) {
      history.noteStored();
      for (const at of [0, 1]) history.noteDamage(file + at);
      dues.push(history.due);
      history.noteOpened();
    }
    expect(dues).toEqual(['live', 'all', 'all', 'all']);
    for (const at of [10, 11]) expect(history.noteDamage(at)).toBe(false);
  });

  it('still wants the file set aside after a later end with another cause', () => {
    const history = new FaultHistory();
    history.noteEnd(true, 0);
    history.noteEnd(true, 1);
    history.noteEnd(false, 2);
    expect(history.due).toBe('live');
  });

  it('blames the file after three ends in total, although something was stored between them', () => {
    const history = new FaultHistory();
    for (const at of [0, 1, 2]) {
      expect(history.due).toBe('none');
      history.noteEnd(true, at);
      history.noteStored();
    }
    expect(history.due).toBe('live');
  });

  it('never blames the file if ends are rare', () => {
    const history = new FaultHistory();
    for (let end = 0; end < 20; end++) {
      history.noteEnd(true, end * CAPTURE_CALM_MS);
      history.noteStored();
      expect(history.pause_ms).toBe(CAPTURE_RESTART_MS.first);
    }
    expect(history.due).toBe('none');
  });

  it('does not blame the file for ends that have another cause', () => {
    const history = new FaultHistory();
    for (let end = 0; end < 20; end++) history.noteEnd(false, end);
    expect(history.due).toBe('none');
    expect(history.pause_ms).toBe(CAPTURE_RESTART_MS.last);
  });

  it('treats two damaged pages in a row as damage, and a single one as none', () => {
    const history = new FaultHistory();
    expect(history.noteDamage(0)).toBe(false);
    history.noteStored();
    expect(history.noteDamage(1)).toBe(false);
    expect(history.noteDamage(2)).toBe(true);
    expect(history.due).toBe('live');
  });
});
