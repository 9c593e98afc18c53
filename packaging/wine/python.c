/* python.exe for a Windows Python that came without one. */
#include <windows.h>

int wmain(int count, wchar_t **words)
{
    HMODULE python = LoadLibraryW(L"python311.dll");
    int (*run)(int, wchar_t **) = python ? (void *)GetProcAddress(python, "Py_Main") : NULL;
    return run ? run(count, words) : 127;
}
