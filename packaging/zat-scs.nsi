; The installer for Windows: for one user, without an administrator. `packaging/installer.py` runs makensis on it.
;
; Given by /D: VERSION (0.1.0), SIZE (KiB on the disk), BUNDLE (folder that holds the program), FILES (what to delete
; again), ICON, PICTURE, OUT, and SIGN (what signs the uninstaller; left out where nothing is signed).
;
;   zat-scs-setup-VERSION.exe [/S] [/AUTOSTART=1|0] [/D=FOLDER]
;   uninstall.exe             [/S] [/REMOVEDATA=1]
;
; Exit codes: 0 done, 1 left by the user, 2 an error, 3 the background job could not be given back, 4 the program does
; not end. After 3 and 4 everything is as it was, except that what runs may have ended.

Target amd64-unicode ; before all else: the other stubs are 32-bit
SetCompressor /SOLID lzma
ManifestDPIAware true
ManifestSupportedOS all ; else Windows tells its true version to no program
RequestExecutionLevel user

!include FileFunc.nsh
!include LogicLib.nsh
!include MUI2.nsh
!include WinVer.nsh

!define NAME "ZAT-SCS"
!define CURRENT "Software\Microsoft\Windows\CurrentVersion"
!define UNINSTALL "${CURRENT}\Uninstall\${NAME}"
!define RUN "${CURRENT}\Run"
!define APPROVED "${CURRENT}\Explorer\StartupApproved\Run" ; where the task manager keeps its own switch
!define RUN_ONCE "${CURRENT}\RunOnce"
!define RELEASE "zat-scs-release" ; a give-back at the next login, which the program registers by itself
!define COMMAND "zat-scs.exe"
!define TRAY "zat-scs-tray.exe"
!define DATA "$LOCALAPPDATA\zat-scs"

Name "${NAME}"
BrandingText "${NAME} ${VERSION}"
OutFile "${OUT}"
InstallDir "$LOCALAPPDATA\Programs\${NAME}"
InstallDirRegKey HKCU "${UNINSTALL}" InstallLocation
ShowInstDetails nevershow
ShowUninstDetails nevershow

VIProductVersion "${VERSION}.0"
VIAddVersionKey ProductName "${NAME}"
VIAddVersionKey ProductVersion "${VERSION}"
VIAddVersionKey FileVersion "${VERSION}"
VIAddVersionKey FileDescription "${NAME} installer"
VIAddVersionKey CompanyName "ZAT-SCS contributors"
VIAddVersionKey LegalCopyright "ZAT-SCS contributors, MIT licence"

!ifdef SIGN
  !uninstfinalize '${SIGN} "%1"'
!endif

!define MUI_ICON "${ICON}"
!define MUI_UNICON "${ICON}"
!define MUI_WELCOMEFINISHPAGE_BITMAP "${PICTURE}"
!define MUI_ABORTWARNING
!define MUI_COMPONENTSPAGE_SMALLDESC
!define MUI_FINISHPAGE_RUN "$INSTDIR\${TRAY}"
!define MUI_FINISHPAGE_RUN_TEXT "Start ${NAME} now"
!define MUI_FINISHPAGE_TEXT "Nothing is listened to before you have said what may be: the first start asks."
!insertmacro MUI_PAGE_COMPONENTS
!insertmacro MUI_PAGE_DIRECTORY
!insertmacro MUI_PAGE_INSTFILES
!insertmacro MUI_PAGE_FINISH
!insertmacro MUI_UNPAGE_CONFIRM
!insertmacro MUI_UNPAGE_INSTFILES
!insertmacro MUI_LANGUAGE English

Var Ran ; 1: a tray ran here before an upgrade, and is to run again
Var Upgrade ; 1: the uninstaller makes room for another version, and leaves all but its own files
Var RemoveData

; --- Installing ------------------------------------------------------------------------------------------------------

Section "${NAME}" Program
  SectionIn RO
  Call EndOldVersion
  SetOutPath "$INSTDIR"
  File /r "${BUNDLE}/*"
  WriteUninstaller "$INSTDIR\uninstall.exe"
  CreateShortcut "$SMPROGRAMS\${NAME}.lnk" "$INSTDIR\${TRAY}" "" "$INSTDIR\${TRAY}" 0
  WriteRegStr HKCU "${UNINSTALL}" DisplayName "${NAME}"
  WriteRegStr HKCU "${UNINSTALL}" DisplayVersion "${VERSION}"
  WriteRegStr HKCU "${UNINSTALL}" Publisher "ZAT-SCS contributors"
  WriteRegStr HKCU "${UNINSTALL}" DisplayIcon '"$INSTDIR\${TRAY}"'
  WriteRegStr HKCU "${UNINSTALL}" InstallLocation "$INSTDIR"
  WriteRegStr HKCU "${UNINSTALL}" UninstallString '"$INSTDIR\uninstall.exe"'
  WriteRegStr HKCU "${UNINSTALL}" QuietUninstallString '"$INSTDIR\uninstall.exe" /S'
  WriteRegDWORD HKCU "${UNINSTALL}" EstimatedSize ${SIZE}
  WriteRegDWORD HKCU "${UNINSTALL}" NoModify 1
  WriteRegDWORD HKCU "${UNINSTALL}" NoRepair 1
SectionEnd

Section /o "Start on login" Autostart
SectionEnd

Section "-autostart"
  ReadRegStr $0 HKCU "${RUN}" "${NAME}"
  ${If} ${SectionIsSelected} ${Autostart}
    ${If} $0 == "" ; where it was on before, the task manager's switch stays as it is
      DeleteRegValue HKCU "${APPROVED}" "${NAME}"
    ${EndIf}
    WriteRegStr HKCU "${RUN}" "${NAME}" '"$INSTDIR\${TRAY}" --autostart'
  ${Else}
    DeleteRegValue HKCU "${RUN}" "${NAME}"
    DeleteRegValue HKCU "${APPROVED}" "${NAME}"
  ${EndIf}
SectionEnd

Section "-start again"
  ${If} ${Silent}
  ${AndIf} $Ran = 1
    Exec '"$INSTDIR\${TRAY}" --autostart'
  ${EndIf}
SectionEnd

!insertmacro MUI_FUNCTION_DESCRIPTION_BEGIN
  !insertmacro MUI_DESCRIPTION_TEXT ${Program} "The program, an entry in the start menu, and an uninstaller."
  !insertmacro MUI_DESCRIPTION_TEXT ${Autostart} "The tray starts when you log in. Its menu can change that later."
!insertmacro MUI_FUNCTION_DESCRIPTION_END

Function .onInit
  ${IfNot} ${AtLeastWin10}
    MessageBox MB_ICONSTOP "${NAME} needs Windows 10 or newer." /SD IDOK
    SetErrorLevel 2
    Quit
  ${EndIf}
  ReadRegStr $0 HKCU "${RUN}" "${NAME}"
  ${If} $0 != ""
    !insertmacro SelectSection ${Autostart}
  ${EndIf}
  ${GetParameters} $0
  ${GetOptions} $0 "/AUTOSTART=" $1
  ${If} $1 == "1"
    !insertmacro SelectSection ${Autostart}
  ${ElseIf} $1 == "0"
    !insertmacro UnselectSection ${Autostart}
  ${EndIf}
FunctionEnd

Function EndOldVersion ; by its own uninstaller, which knows what it has installed
  ReadRegStr $1 HKCU "${UNINSTALL}" InstallLocation
  ${IfNot} ${FileExists} "$1\uninstall.exe"
    Return
  ${EndIf}
  ClearErrors
  FileOpen $0 "$1\${TRAY}" a
  ${If} ${Errors}
    StrCpy $Ran 1
  ${Else}
    FileClose $0
  ${EndIf}
  again:
    DetailPrint "Ending the version that is installed ..."
    ExecWait '"$1\uninstall.exe" /S /UPGRADE=1 _?=$1' $0
    ${If} $0 == 0
      Return
    ${EndIf}
    MessageBox MB_RETRYCANCEL|MB_ICONEXCLAMATION "${NAME} is running and did not end.$\r$\n$\r$\n\
      Please end it by Quit in its tray menu, or its engine by Ctrl+C, then retry." /SD IDCANCEL IDRETRY again
  SetErrorLevel 4
  Abort "Nothing was changed: ${NAME} is still running."
FunctionEnd

; --- Removing --------------------------------------------------------------------------------------------------------

Function un.onInit
  ${GetParameters} $0
  ${GetOptions} $0 "/UPGRADE=" $Upgrade
  ${GetOptions} $0 "/REMOVEDATA=" $RemoveData
FunctionEnd

Section un.Program
  ${If} ${FileExists} "$INSTDIR\${COMMAND}"
    Call un.GiveBackAndEnd
  ${EndIf}
  ${If} $Upgrade != 1
    Call un.RemoveData
    DeleteRegValue HKCU "${RUN}" "${NAME}"
    DeleteRegValue HKCU "${APPROVED}" "${NAME}"
    DeleteRegValue HKCU "${RUN_ONCE}" "${RELEASE}"
    DeleteRegKey HKCU "${UNINSTALL}"
    Delete "$SMPROGRAMS\${NAME}.lnk"
    Delete "$INSTDIR\uninstall.exe"
  ${EndIf}
  SetOutPath "$TEMP" ; a folder that somebody stands in cannot be removed
  !include "${FILES}" ; each file by its name: whatever else lies in that folder is not ours
  RMDir "$INSTDIR"
SectionEnd

Function un.GiveBackAndEnd
  again:
    DetailPrint "Giving the background job back ..."
    nsExec::ExecToStack '"$INSTDIR\${COMMAND}" quit' ; waits for half a minute by itself
    Pop $0
    Pop $1
    StrCpy $3 40 ; the guardian and the keyboard hook end a little later
    ${If} $0 != 0
      StrCpy $3 1
    ${EndIf}
    ${If} $Upgrade != 1 ; a new version gives back what this one left, but after this uninstaller nothing does
      nsExec::ExecToStack '"$INSTDIR\${COMMAND}" release'
      Pop $0
      Pop $2
      ${If} $0 != 0
        MessageBox MB_ABORTRETRYIGNORE|MB_ICONEXCLAMATION|MB_DEFBUTTON2 "The background job could not be given back:\
          $\r$\n$\r$\n$2$\r$\nIf this is ignored, it may stay throttled until you give it back yourself." \
          /SD IDABORT IDRETRY again IDIGNORE ignored
        SetErrorLevel 3
        Abort "Nothing was removed: the background job could not be given back."
        ignored:
      ${EndIf}
    ${EndIf}
    Call un.AreFilesFree
    ${If} $0 = 1
      Return
    ${EndIf}
    MessageBox MB_RETRYCANCEL|MB_ICONEXCLAMATION "${NAME} is running and did not end.$\r$\n$\r$\n$1$\r$\n\
      Please end it by Quit in its tray menu, or its engine by Ctrl+C, then retry." /SD IDCANCEL IDRETRY again
  SetErrorLevel 4
  Abort "Nothing was removed: ${NAME} is still running."
FunctionEnd

Function un.AreFilesFree ; $0 = 1: nothing runs from here any more, after $3 tries at most; Windows locks what runs
  ${Do}
    StrCpy $0 1
    ClearErrors
    FileOpen $4 "$INSTDIR\${COMMAND}" a
    FileOpen $5 "$INSTDIR\${TRAY}" a
    ${If} ${Errors}
      StrCpy $0 0
    ${EndIf}
    FileClose $4
    FileClose $5
    IntOp $3 $3 - 1
    ${If} $0 = 1
    ${OrIf} $3 < 1
      Return
    ${EndIf}
    Sleep 250
  ${Loop}
FunctionEnd

Function un.RemoveData
  ${IfNot} ${Silent}
    MessageBox MB_YESNO|MB_ICONQUESTION|MB_DEFBUTTON2 "Delete your settings, saved contexts, recordings, logs \
      and what was learned, too?$\r$\n$\r$\nNo keeps them for a later installation." IDNO keep
    StrCpy $RemoveData 1
    keep:
  ${EndIf}
  ${If} $RemoveData != 1
    Return
  ${EndIf}
  nsExec::ExecToStack '"$INSTDIR\${COMMAND}" forget' ; saved contexts lie where the server keeps them
  Pop $0
  Pop $1
  ${If} $0 != 0
    MessageBox MB_ICONEXCLAMATION "Not all saved contexts could be deleted:$\r$\n$\r$\n$1" /SD IDOK
  ${EndIf}
  RMDir /r "${DATA}"
FunctionEnd
